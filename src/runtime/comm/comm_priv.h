/* Interfaces between the files of comm: endpoints, ranks as threads, and flight records. */
#ifndef RUNTIME_COMM_COMM_PRIV_H
#define RUNTIME_COMM_COMM_PRIV_H

#include "runtime/comm/transport.h"

/* Ranks as threads of this process: a group has one endpoint per rank.  The creator frees the
 * group after all endpoints are closed. */
struct wf_inproc;

/* Creates a group of n ranks.  The caller owns *out. */
enum weft_status wf_inproc_new(uint32_t n, struct wf_inproc **out, struct weft_error *err);
void wf_inproc_free(struct wf_inproc *group); /* NULL is allowed */
/* Opens the endpoint of a rank.  The caller owns *out. */
enum weft_status wf_inproc_open(struct wf_inproc *group, uint32_t rank, struct weft_comm **out,
                                struct weft_error *err);

/* Checks that a table or a module was compiled with the same headers as this library. */
enum weft_status wf_comm_check_abi(const struct weft_transport_abi *abi, const char *name,
                                   struct weft_error *err);

/* Ends the program of a rank, which returned `st`: writes the flight record, aborts the other
 * ranks after a failure, and closes the endpoint.  Returns the first error of any rank. */
enum weft_status wf_comm_finish(struct weft_comm *comm, enum weft_status st,
                                struct weft_error *err);

/* Frees the objects that wf_comm_dispose() kept.  Aborts all ranks first unless that has
 * happened. */
void wf_comm_free_disposals(struct weft_comm *comm);

/* A memory-mapped file with the current action of a rank.  With `heartbeats` a thread records
 * continuously that the process is alive: if a launcher kills all ranks after one rank was
 * lost, the lost rank is the rank whose record stops first. */
struct wf_flight_file;

/* Creates the file and maps it.  The caller owns *out. */
enum weft_status wf_flight_open(const char *path, uint32_t rank, uint32_t n_ranks,
                                bool heartbeats, struct wf_flight_file **out,
                                struct weft_error *err);
/* Records the current action of the rank and its text. */
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
