/* The flight records of a run's ranks (weft/comm.h), and which rank was lost. */
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
    WF_FATE_FAILED,  /* its record has the error */
    WF_FATE_RUNNING, /* its process exists */
    WF_FATE_GONE,    /* its process does not exist, and it recorded no end */
    WF_FATE_AWAY,    /* its process is on another host and cannot be checked */
};
enum { WF_N_FATES = WF_FATE_AWAY + 1 };

struct wf_flights {
    struct weft_flight *at; /* owned: (n), by rank */
    enum wf_fate *fates;    /* owned: (n) */
    size_t n;
    uint32_t n_ranks; /* of the run; some may have no record */
    size_t n_old;     /* records of an earlier run with another number of ranks, left out */
    size_t lost;      /* index of the rank that the others waited for; SIZE_MAX: none */
};

/* Reads the records in `dir` and finds the lost rank.  `timeout` is the number of seconds without a
 * heartbeat after which a rank that cannot be checked counts as lost.  Returns WEFT_DATA for a file
 * that is not a record.  Release it with wf_flights_release(). */
enum weft_status wf_flights_init(struct wf_flights *f, const char *dir, double timeout,
                                 struct weft_error *err);
void wf_flights_release(struct wf_flights *f);

/* Reads one record.  Returns WEFT_DATA if it is not a regular file or not a record. */
enum weft_status wf_flights_read_one(const char *path, struct weft_flight *out,
                                     struct weft_error *err);

/* Sets `fates` and `lost` of records that were read on `host` at the time `now_s`. */
void wf_flights_judge(struct wf_flights *f, const char *host, int64_t now_s, double timeout);

/* Returns the time of the last heartbeat of a rank that is gone or away, otherwise that of its last
 * progress. */
int64_t wf_flights_last_ns(const struct wf_flights *f, size_t i);

/* Returns true if rank i was in the same process as the lost one. */
bool wf_flights_shares_process(const struct wf_flights *f, size_t i);

/* Returns true if rank i may have been lost first: its last heartbeat is less than 4 ms after that of
 * the lost rank, and it does not wait for it, directly or through others. */
bool wf_flights_may_be_lost(const struct wf_flights *f, size_t i);

#endif
