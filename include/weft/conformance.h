/* Tests a transport (weft/transport.h).  These functions are in libweft-conformance, a static
 * library that uses only public functions of libweft:
 *
 *     cc test.c $(pkg-config --cflags --libs weft-conformance weft)
 *
 * The caller passes a function that starts ranks over its transport.  The suite starts ranks
 * for one case after the other, and reports each result:
 *
 *     struct weft_conformance_setup setup = {.launch = my_launch, .processes = true};
 *     weft_transport_conformance(&setup, report, NULL, &result, &err);
 *
 * The cases check that messages arrive complete and in order, on every channel, with every
 * size, however many are pending; that memory may be reused when weft/comm.h permits it; that
 * waiting ranks make progress; that heartbeats arrive; that the first error ends every wait of
 * every rank; that a silent or dead rank is reported by its number; that endpoints can be
 * closed after success and after an error.
 *
 * Programs whose ranks are started from outside, such as by mpirun, run the cases themselves:
 * c->run(comm, (void *)c, &err) on c->n_ranks ranks, and weft_conformance_judge() on each rank.
 */
#ifndef WEFT_CONFORMANCE_H
#define WEFT_CONFORMANCE_H

#include "weft/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One case of the suite. */
struct weft_conformance_case {
    const char *name;
    uint32_t n_ranks;
    weft_rank_fn *run; /* the program of each rank; its argument is the case itself */
    /* The status that every rank must return, and a text that its message must contain.
     * WEFT_OK if the case injects no fault. */
    enum weft_status status;
    const char *message;
    uint32_t silent;      /* the rank that need not return in time, or UINT32_MAX */
    bool kills;           /* kills the process of rank `silent` */
    unsigned long detail; /* for the program of the case */
};

/* Returns all cases and their number.  The pointer is borrowed. */
WEFT_API const struct weft_conformance_case *weft_conformance_cases(size_t *n);

/* Checks the result of one rank: `st` and `got` are what weft_comm_run(), or the function that
 * started the rank, returned.  Returns WEFT_INTERNAL and fills in err if it is wrong. */
WEFT_API enum weft_status weft_conformance_judge(const struct weft_conformance_case *c,
                                                 enum weft_status st,
                                                 const struct weft_error *got,
                                                 struct weft_error *err);

/* Starts n ranks, runs fn(comm, fn_arg, ...) on each through weft_comm_run(), and returns when
 * all ranks have ended.  Returns WEFT_OK if all ranks returned WEFT_OK, and the first error
 * otherwise.  A rank that ended without a result is an error, too. */
typedef enum weft_status weft_launch_fn(void *arg, uint32_t n, weft_rank_fn *fn, void *fn_arg,
                                        struct weft_error *err);

struct weft_conformance_setup {
    /* Ranks must be threads of this process, or processes that it forks: they write their
     * results to memory that they inherit. */
    weft_launch_fn *launch;
    void *launch_arg;
    bool processes;   /* ranks are processes: also runs the cases that kill one */
    double timeout_s; /* time-out of the cases without a fault; 0: the default of weft/comm.h */
    const char *only; /* runs only the cases whose names contain this text; NULL: all */
};

struct weft_conformance_result {
    size_t n_passed, n_failed, n_skipped;
};

/* Reports the result of a case: failure is NULL if the case passed. */
typedef void weft_conformance_report_fn(void *arg, const struct weft_conformance_case *c,
                                        const struct weft_error *failure);

/* Runs the cases.  `report` may be NULL.  Returns WEFT_OK and fills in *out if all cases were
 * run, also if some failed; a transport conforms if out->n_failed is 0. */
WEFT_API enum weft_status weft_transport_conformance(const struct weft_conformance_setup *setup,
                                                     weft_conformance_report_fn *report,
                                                     void *arg,
                                                     struct weft_conformance_result *out,
                                                     struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
