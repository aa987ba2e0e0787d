/* Interfaces between the files of comm: ranks as threads, and flight records. */
#ifndef RUNTIME_COMM_COMM_PRIV_H
#define RUNTIME_COMM_COMM_PRIV_H

#include "runtime/comm/transport.h"

/* Ranks as threads of this process: a group has one endpoint per rank.  The creator frees the
 * group after all endpoints are closed. */
struct wf_inproc;
enum weft_status wf_inproc_new(uint32_t n, struct wf_inproc **out, struct weft_error *err);
void wf_inproc_free(struct wf_inproc *group); /* NULL is allowed */
enum weft_status wf_inproc_open(struct wf_inproc *group, uint32_t rank, struct weft_comm **out,
                                struct weft_error *err);

/* Writes to the flight record that the rank's program has returned. */
void wf_comm_record_exit(struct weft_comm *comm, enum weft_status st,
                         const struct weft_error *err);

/* A memory-mapped file with the current action of a rank.  With `heartbeats` a thread records
 * continuously that the process is alive: if a launcher kills all ranks after one rank was
 * lost, the lost rank is the rank whose record stops first. */
struct wf_flight_file;
enum weft_status wf_flight_open(const char *path, uint32_t rank, uint32_t n_ranks,
                                bool heartbeats, struct wf_flight_file **out,
                                struct weft_error *err);
void wf_flight_update(struct wf_flight_file *f, const struct weft_activity *activity,
                      const char *doing);
/* Records the end of the rank.  A NULL `err` means success. */
void wf_flight_finish(struct wf_flight_file *f, const struct weft_error *err);
void wf_flight_close(struct wf_flight_file *f); /* NULL is allowed */

/* Ends all waits of the group with this error; `n_missing` is the number of ranks whose
 * endpoints were never opened. */
void wf_inproc_cancel(struct wf_inproc *group, uint32_t n_missing,
                      const struct weft_error *err);

#endif
