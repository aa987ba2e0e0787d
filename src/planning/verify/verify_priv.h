/* Collecting findings: shared by the passes of the verifier. */
#ifndef PLANNING_VERIFY_VERIFY_PRIV_H
#define PLANNING_VERIFY_VERIFY_PRIV_H

#include "planning/sched/channel.h"
#include "planning/sched/deps.h"
#include "weft/verify.h"

struct wf_verifier {
    const struct weft_schedule *s;      /* borrowed */
    const struct weft_placement *place; /* borrowed */
    struct wf_dep_rules rules;
    struct weft_verify_result *report; /* borrowed */
    /* owned: what each (stage, micro) was seen to have, a bit a kind; only the first n_cells in
     * order of stage and micro.  A schedule with fewer actions than cells is incomplete among
     * those already. */
    uint8_t *cells;
    size_t n_cells, n_all_cells;
    bool lowered;
};

/* `position` SIZE_MAX: not at one place. */
void wf_verifier_add(struct wf_verifier *p, enum weft_rule rule, uint32_t rank, size_t position,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

static inline size_t wf_verifier_cell(const struct wf_verifier *p, uint32_t stage,
                                      uint32_t micro)
{
    return (size_t)stage * p->place->n_micros + micro;
}

static inline bool wf_verifier_remote(const struct wf_verifier *p, uint32_t stage,
                                      int64_t other, uint32_t micro)
{
    return other >= 0 && other < p->place->n_stages &&
           wf_deps_remote(&p->rules, stage, (uint32_t)other, micro);
}

/* Every action once, at a legal place, after what its own rank must have done before. */
enum weft_status wf_verify_cells(struct wf_verifier *p, struct weft_error *err);

/* Both ends of every channel list the same sequence. */
enum weft_status wf_verify_channels(struct wf_verifier *p, const struct wf_channels *channels,
                                    struct weft_error *err);

/* Nobody waits for ever. */
enum weft_status wf_verify_progress(struct wf_verifier *p, const struct wf_channels *channels,
                                    size_t depth, struct weft_error *err);

#endif
