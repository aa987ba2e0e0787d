/* Reads the flight records of the ranks of a run (weft/comm.h) and finds the rank that was
 * lost. */
#ifndef TRAINING_INSPECT_FLIGHTS_H
#define TRAINING_INSPECT_FLIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/comm.h"
#include "weft/status.h"

/* The state of a rank when its record is read. */
enum wf_fate {
    WF_FATE_DONE,
    WF_FATE_FAILED,  /* the record of the rank contains the error */
    WF_FATE_RUNNING, /* the process of the rank exists */
    WF_FATE_GONE,    /* the process does not exist, and the rank recorded no end */
    WF_FATE_AWAY,    /* the process is on another host and cannot be checked */
};
enum { WF_N_FATES = WF_FATE_AWAY + 1 };

struct wf_flights {
    struct weft_flight *at; /* owned: (n), sorted by rank */
    enum wf_fate *fates;    /* owned: (n) */
    size_t n;
    uint32_t n_ranks; /* number of ranks of the run; some ranks may have no record */
    /* number of removed records, which belong to an earlier run with another number of ranks */
    size_t n_old;
    /* index of the lost rank, which the other ranks waited for; SIZE_MAX: none */
    size_t lost;
};

/* Reads the records in `dir` and finds the lost rank.  `timeout` is the number of seconds
 * without a heartbeat after which a rank that cannot be checked counts as lost.  Returns
 * WEFT_DATA if a file is not a record.  The caller releases *f with wf_flights_release(). */
enum weft_status wf_flights_init(struct wf_flights *f, const char *dir, double timeout,
                                 struct weft_error *err);
void wf_flights_release(struct wf_flights *f);

/* Reads one record.  Returns WEFT_DATA if the file is not a regular file or not a record. */
enum weft_status wf_flights_read_one(const char *path, struct weft_flight *out,
                                     struct weft_error *err);

/* Sets `fates` and `lost`, given that the records were read on `host` at the time `now_s`. */
void wf_flights_judge(struct wf_flights *f, const char *host, int64_t now_s, double timeout);

/* Returns the time of the last heartbeat if rank i is gone or away, otherwise the time of its
 * last progress. */
int64_t wf_flights_last_ns(const struct wf_flights *f, size_t i);

/* Returns the name of a fate, such as "ended unexpectedly". */
const char *wf_fate_name(enum wf_fate fate);

/* Returns the name of the state in one record, such as "not ended by itself". */
const char *wf_flight_state_name(enum weft_flight_state state);

/* Describes how rank i ended.  A rank that recorded no end either ran in the same process as the
 * lost rank, or was killed by the launcher, which kills all ranks when one is missing. */
const char *wf_flights_ending(const struct wf_flights *f, size_t i);

/* Returns true if rank i may have been lost before the lost rank: the last heartbeat of rank i
 * is less than 4 ms after that of the lost rank, or less than twice the interval between
 * heartbeats of the lost rank.  On a busy machine a running process records its heartbeat late.
 * A rank that waits for the lost rank is included: it may have been killed while it waited. */
bool wf_flights_may_be_lost(const struct wf_flights *f, size_t i);

#endif
