/* The cases of the conformance suite, and the function that runs them. */
#define _GNU_SOURCE
#include "weft/conformance.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "conformance/conformance_priv.h"

#define NOBODY UINT32_MAX
#define PASSES WEFT_OK, "", NOBODY, false, 0
#define FAULT 3, wf_case_fault

static const struct weft_conformance_case cases[] = {
    {"messages to itself", 1, wf_case_ring, PASSES},
    {"a ring of 2 ranks", 2, wf_case_ring, PASSES},
    {"a ring of 3 ranks", 3, wf_case_ring, PASSES},
    {"a ring of 8 ranks", 8, wf_case_ring, PASSES},
    {"sizes from 0 to 30 MB to itself", 1, wf_case_sizes, PASSES},
    {"sizes from 0 to 30 MB in both directions", 2, wf_case_sizes, PASSES},
    {"order on a channel", 2, wf_case_order, PASSES},
    {"order on a channel of a ring", 3, wf_case_order, PASSES},
    {"all channels between all ranks", 3, wf_case_channels, PASSES},
    {"unexpected messages do not delay other channels", 2, wf_case_late, PASSES},
    {"2000 posted receives", 2, wf_case_posted, PASSES},
    {"reuse of memory", 2, wf_case_reuse, PASSES},
    {"progress during a wait", 3, wf_case_progress, PASSES},
    {"collectives of 1 rank", 1, wf_case_collectives, PASSES},
    {"collectives of 2 ranks", 2, wf_case_collectives, PASSES},
    {"collectives of 3 ranks", 3, wf_case_collectives, PASSES},
    {"collectives of 8 ranks", 8, wf_case_collectives, PASSES},
    {"a rank that ends early", 3, wf_case_early_end, PASSES},
    {"heartbeats of a busy rank", 2, wf_case_busy, PASSES},
    {"heartbeats of a rank that waits for itself", 3, wf_case_own_work, PASSES},

    {"wrong step", FAULT, WEFT_PEER, "has step 6 (expected 5", NOBODY, false, WF_FAULT_STEP},
    {"wrong shape", FAULT, WEFT_PEER, "has the data u64[1] (expected f32[2] at step 5", NOBODY,
     false, WF_FAULT_SHAPE},
    {"too short", FAULT, WEFT_PEER, "has number of bytes 4 (expected 8", NOBODY, false,
     WF_FAULT_SHORT},
    {"too long", FAULT, WEFT_PEER, "has number of bytes 16 (expected 8", NOBODY, false,
     WF_FAULT_LONG},
    {"much too long", FAULT, WEFT_PEER, "has number of bytes 5000000 (expected 8", NOBODY,
     false, WF_FAULT_HUGE},
    {"above the maximum", FAULT, WEFT_PEER, "has maximum number of bytes 16 (expected 8",
     NOBODY, false, WF_FAULT_MAXIMUM},
    {"rank 0 fails", FAULT, WEFT_NUMERIC, "something is not finite (rank 0", NOBODY, false,
     WF_FAULT_FAILS_0},
    {"rank 1 fails", FAULT, WEFT_NUMERIC, "something is not finite (rank 1", NOBODY, false,
     WF_FAULT_FAILS_1},
    {"rank 2 fails", FAULT, WEFT_NUMERIC, "something is not finite (rank 2", NOBODY, false,
     WF_FAULT_FAILS_2},
    {"all ranks fail", FAULT, WEFT_NUMERIC, "something is not finite", NOBODY, false,
     WF_FAULT_ALL_FAIL},
    {"a rank fails at the end", FAULT, WEFT_NUMERIC, "something is not finite", NOBODY, false,
     WF_FAULT_FAILS_AT_END},
    {"a silent rank", FAULT, WEFT_PEER, "rank 0 has sent no heartbeat for", 0, false,
     WF_FAULT_SLEEPS},
    {"a message that is never sent", FAULT, WEFT_PEER, "form a cycle", NOBODY, false,
     WF_FAULT_NEVER_SENDS},
    {"a killed rank", FAULT, WEFT_PEER, "rank 0 ", 0, true, WF_FAULT_KILLED},
    {"new ranks after all faults", 3, wf_case_ring, PASSES},
};

const struct weft_conformance_case *weft_conformance_cases(size_t *n)
{
    *n = WEFT_LEN(cases);
    return cases;
}

enum weft_status weft_conformance_judge(const struct weft_conformance_case *c,
                                        enum weft_status st, const struct weft_error *got,
                                        struct weft_error *err)
{
    if (st == WEFT_OK && c->status == WEFT_OK)
        return WEFT_OK;
    if (st != c->status || strstr(got->msg, c->message) == NULL)
        return WF_WRONG(err, "status %d: %.180s (expected status %d: %s)", (int)st,
                        st == WEFT_OK ? "" : got->msg, (int)c->status, c->message);
    /* The error names the last activity of the silent rank. */
    if (c->run == wf_case_fault && c->detail == WF_FAULT_SLEEPS &&
        strstr(got->msg, "step 5, at action 40") == NULL)
        return WF_WRONG(err, "the activity of the silent rank is not named: %.200s", got->msg);
    return WEFT_OK;
}

/* -- running ------------------------------------------------------------------------------- */

enum { MAX_RANKS = 8 };

/* The results of ranks, in memory that forked processes share. */
struct results {
    struct {
        uint32_t returned;
        enum weft_status status;
        struct weft_error err;
    } at[MAX_RANKS];
};

struct run {
    const struct weft_conformance_case *c;
    double timeout_s;
    struct results *results;
};

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct run *r = arg;
    uint32_t rank = weft_comm_rank(comm);
    if (weft_comm_size(comm) != r->c->n_ranks || rank >= r->c->n_ranks)
        return WF_WRONG(err, "rank %u of %u (expected %u ranks)", rank, weft_comm_size(comm),
                        r->c->n_ranks);
    if (r->timeout_s > 0)
        weft_comm_set_timeout(comm, r->timeout_s);
    enum weft_status st = r->c->run(comm, (void *)r->c, err);
    r->results->at[rank].status = st;
    r->results->at[rank].err = *err;
    r->results->at[rank].returned = 1;
    return st;
}

/* Checks that all ranks returned the same, expected result. */
static enum weft_status check_ranks(const struct weft_conformance_case *c,
                                    const struct results *results, struct weft_error *err)
{
    const struct weft_error *first = NULL;

    for (uint32_t r = 0; r < c->n_ranks; r++) {
        const struct weft_error *own = &results->at[r].err;
        struct weft_error why = {.msg = ""};
        if (r == c->silent)
            continue;

        if (results->at[r].returned == 0)
            return WF_WRONG(err, "rank %u has not returned", r);
        /* These ranks have finished before the fault. */
        if (c->detail == WF_FAULT_FAILS_AT_END && results->at[r].status == WEFT_OK)
            continue;

        if (weft_conformance_judge(c, results->at[r].status, own, &why) != WEFT_OK)
            return WF_WRONG(err, "rank %u: %.400s", r, why.msg);

        /* All ranks must report the same error. */
        if (c->status == WEFT_OK)
            continue;
        if (first != NULL && strcmp(first->msg, own->msg) != 0)
            return WF_WRONG(err, "ranks return different errors: %.180s; %.180s", first->msg,
                            own->msg);
        first = own;
    }
    return WEFT_OK;
}

static enum weft_status run_case(const struct weft_conformance_setup *setup,
                                 const struct weft_conformance_case *c, struct results *results,
                                 struct weft_error *err)
{
    struct run run = {c, setup->timeout_s, results};
    struct weft_error got = {.msg = ""};
    memset(results, 0, sizeof *results);
    enum weft_status st = setup->launch(setup->launch_arg, c->n_ranks, run_rank, &run, &got);
    WEFT_TRY(check_ranks(c, results, err));
    if (c->kills) /* the function may report the end of the process in its own words */
        return st != WEFT_OK ? WEFT_OK
                             : WF_WRONG(err, "the start function returns success, although a "
                                             "rank was killed");
    struct weft_error why = {.msg = ""};
    if (weft_conformance_judge(c, st, &got, &why) != WEFT_OK)
        return WF_WRONG(err, "the start function returns a wrong result: %.400s", why.msg);
    return WEFT_OK;
}

static bool is_selected(const struct weft_conformance_setup *setup,
                        const struct weft_conformance_case *c)
{
    return (setup->processes || !c->kills) &&
           (setup->only == NULL || strstr(c->name, setup->only) != NULL);
}

enum weft_status weft_transport_conformance(const struct weft_conformance_setup *setup,
                                            weft_conformance_report_fn *report, void *arg,
                                            struct weft_conformance_result *out,
                                            struct weft_error *err)
{
    struct weft_conformance_result sum = {0};
    if (setup == NULL || setup->launch == NULL || out == NULL)
        return WF_WRONG(err, "conformance: the setup, its function launch, or the result is "
                             "NULL"),
               WEFT_USAGE;

    struct results *results =
        mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        return WF_WRONG(err, "conformance: no memory for the results"), WEFT_NOMEM;

    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error why = {.msg = ""};
        if (!is_selected(setup, &cases[i])) {
            sum.n_skipped++;
            continue;
        }
        bool passed = run_case(setup, &cases[i], results, &why) == WEFT_OK;
        sum.n_passed += passed;
        sum.n_failed += !passed;
        if (report != NULL)
            report(arg, &cases[i], passed ? NULL : &why);
    }

    munmap(results, sizeof *results);
    *out = sum;
    return WEFT_OK;
}
