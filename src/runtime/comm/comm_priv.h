#ifndef RUNTIME_COMM_COMM_PRIV_H
#define RUNTIME_COMM_COMM_PRIV_H

#include "runtime/comm/transport.h"

/* Ranks as threads of this process: a group, and each rank's end of it.  The group is freed by
 * whoever made it, when all ends are closed. */
struct wf_inproc;
enum weft_status wf_inproc_new(uint32_t n, struct wf_inproc **out, struct weft_error *err);
void wf_inproc_free(struct wf_inproc *group); /* NULL is allowed */
enum weft_status wf_inproc_open(struct wf_inproc *group, uint32_t rank, struct weft_comm **out,
                                struct weft_error *err);

/* The rank's program has returned: its record says so. */
void wf_comm_record_exit(struct weft_comm *comm, enum weft_status st,
                         const struct weft_error *err);

/* A mapped record of what a rank is at.  With `heartbeats` a thread notes all the time that the process
 * is alive: when a launcher kills all ranks after one was lost, that one stopped first. */
struct wf_flight_file;
enum weft_status wf_flight_open(const char *path, uint32_t rank, uint32_t n_ranks,
                                bool heartbeats, struct wf_flight_file **out,
                                struct weft_error *err);
void wf_flight_update(struct wf_flight_file *f, const struct weft_activity *activity,
                      const char *doing);
/* err NULL: all went well. */
void wf_flight_finish(struct wf_flight_file *f, const struct weft_error *err);
void wf_flight_close(struct wf_flight_file *f); /* NULL is allowed */

/* Ends all waits with this error, for ranks that were never opened: nobody waits for those. */
void wf_inproc_cancel(struct wf_inproc *group, uint32_t n_missing,
                      const struct weft_error *err);

#endif
