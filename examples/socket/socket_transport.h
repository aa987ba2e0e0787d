/* A transport over Unix domain sockets, between processes that one program forks.
 *
 *     socket_run(4, 0, run_rank, arg, &err);
 *
 * runs run_rank() on four processes and returns when they have ended.  The program must not
 * have other threads at that time.  The processes inherit the memory of the program, as it was
 * when they were forked; what they change is their own.
 */
#ifndef SOCKET_TRANSPORT_H
#define SOCKET_TRANSPORT_H

#include <weft/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The two sockets of a rank to one peer, or -1 for the rank itself. */
struct socket_pair {
    int data;    /* a stream: messages */
    int control; /* records: heartbeats and errors, which must not wait behind messages */
};

/* Opens the endpoint of a rank over connected, non-blocking sockets: pairs[r] leads to rank r.
 * On success the endpoint owns the sockets.  Local. */
enum weft_status socket_open(const struct socket_pair *pairs, uint32_t rank, uint32_t n_ranks,
                             uint64_t run, struct weft_comm **out, struct weft_error *err);

/* Forks n processes, runs fn on each of them as a rank, and waits for their end.
 * Returns the first error of any rank.  buffer_bytes is the size of the socket buffers,
 * 0 for the default. */
enum weft_status socket_run(uint32_t n, int buffer_bytes, weft_rank_fn *fn, void *arg,
                            struct weft_error *err);

/* Fills in err and returns `status`. */
enum weft_status socket_fail(struct weft_error *err, enum weft_status status,
                             const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif
