/* The programs of the conformance suite, and helpers that they share.  The suite is a library
 * of its own and calls only public functions of libweft. */
#ifndef CONFORMANCE_CONFORMANCE_PRIV_H
#define CONFORMANCE_CONFORMANCE_PRIV_H

#include "base/error.h" /* only WEFT_TRY and WEFT_LEN: the functions are not public */
#include "weft/conformance.h"

/* Fills in err and evaluates to WEFT_INTERNAL: the transport is wrong. */
#define WF_WRONG(err, ...) wf_conformance_wrong((err), __FILE__, __LINE__, __VA_ARGS__)

/* Fills in err and returns WEFT_INTERNAL.  Use WF_WRONG(). */
enum weft_status wf_conformance_wrong(struct weft_error *err, const char *file, int line,
                                      const char *format, ...)
    __attribute__((format(printf, 4, 5)));

enum { WF_EXCHANGE_SLACK = 8 }; /* bytes behind each receive buffer */

/* Messages in both directions and their memory, which outlives them also after an error. */
struct wf_exchange {
    size_t n;
    struct weft_message *out, *in; /* owned */
    unsigned char *sent, *buffers; /* owned: payloads and receive buffers, one after another */
};

/* Prepares n messages: the caller sets peers and channels in `out` and `in`.  Message i has
 * sizes[i % n_sizes] bytes, and its header has unusual values. */
enum weft_status wf_exchange_init(struct wf_exchange *x, size_t n, const size_t *sizes,
                                  size_t n_sizes, uint32_t rank, struct weft_error *err);
/* Frees the memory.  If `st` is an error, aborts first, because other ranks may use it. */
enum weft_status wf_exchange_end(struct wf_exchange *x, struct weft_comm *comm,
                                 enum weft_status st, struct weft_error *err);
/* Starts all sends. */
enum weft_status wf_exchange_send(struct wf_exchange *x, struct weft_comm *comm,
                                  struct weft_error *err);
/* Posts all receives. */
enum weft_status wf_exchange_post(struct wf_exchange *x, struct weft_comm *comm,
                                  struct weft_error *err);
/* Waits for receive i, compares its payload, and releases it. */
enum weft_status wf_exchange_take(struct wf_exchange *x, struct weft_comm *comm, size_t i,
                                  struct weft_error *err);
/* Waits for all sends. */
enum weft_status wf_exchange_flush(struct wf_exchange *x, struct weft_comm *comm,
                                   struct weft_error *err);

/* Returns the byte at position i of the payload of message k of `rank`. */
unsigned char wf_conformance_byte(uint32_t rank, size_t k, size_t i);

/* messages.c */
weft_rank_fn wf_case_ring, wf_case_sizes, wf_case_order, wf_case_channels, wf_case_late,
    wf_case_posted;
/* memory.c */
weft_rank_fn wf_case_reuse, wf_case_progress, wf_case_collectives, wf_case_early_end;
/* faults.c */
weft_rank_fn wf_case_busy, wf_case_own_work, wf_case_fault;

/* The faults that rank 0 injects, or the rank that the name says. */
enum wf_fault {
    WF_FAULT_STEP,
    WF_FAULT_SHAPE,
    WF_FAULT_SHORT,
    WF_FAULT_LONG,
    WF_FAULT_HUGE,
    WF_FAULT_MAXIMUM,
    WF_FAULT_FAILS_0,
    WF_FAULT_FAILS_1,
    WF_FAULT_FAILS_2,
    WF_FAULT_ALL_FAIL,
    WF_FAULT_SLEEPS,
    WF_FAULT_NEVER_SENDS,
    WF_FAULT_FAILS_AT_END,
    WF_FAULT_KILLED,
};

#endif
