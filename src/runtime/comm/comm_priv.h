#ifndef RUNTIME_COMM_COMM_PRIV_H
#define RUNTIME_COMM_COMM_PRIV_H

#include "runtime/comm/transport.h"

/* Ranks as threads of this process: a group, and each rank's end of it.  The group is freed by
 * whoever made it, when all ends are closed. */
struct weft_inproc;
enum weft_status weft_inproc_new(uint32_t n, struct weft_inproc **out, struct weft_error *err);
void weft_inproc_free(struct weft_inproc *group); /* NULL is allowed */
enum weft_status weft_inproc_open(struct weft_inproc *group, uint32_t rank,
                                  struct weft_comm **out, struct weft_error *err);

/* The rank's program has returned: its record says so. */
void weft_comm_returned(struct weft_comm *comm, enum weft_status st,
                        const struct weft_error *err);

/* A mapped record of what a rank is at.  With `beats` a thread notes all the time that the process
 * is alive: when a launcher kills all ranks after one was lost, that one stopped first. */
struct weft_flight_file;
enum weft_status weft_flight_open(const char *path, uint32_t rank, uint32_t n_ranks, bool beats,
                                  struct weft_flight_file **out, struct weft_error *err);
void weft_flight_note(struct weft_flight_file *f, const struct weft_life *life,
                      const char *doing);
/* err NULL: all went well. */
void weft_flight_end(struct weft_flight_file *f, const struct weft_error *err);
void weft_flight_close(struct weft_flight_file *f); /* NULL is allowed */

/* Ends all waits with this error, for ranks that were never opened: nobody waits for those. */
void weft_inproc_cancel(struct weft_inproc *group, uint32_t n_missing,
                        const struct weft_error *err);

#endif
