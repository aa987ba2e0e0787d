/* The state that the passes of the verifier share. */
#ifndef PLANNING_VERIFY_VERIFY_PRIV_H
#define PLANNING_VERIFY_VERIFY_PRIV_H

#include "planning/sched/channel.h"
#include "planning/sched/deps.h"
#include "weft/verify.h"

struct wf_verifier {
    const struct weft_schedule *s;      /* borrowed */
    const struct weft_placement *place; /* borrowed */
    struct wf_dep_rules rules;
    struct weft_verify_result *result; /* borrowed */
    /* owned: the actions of each (stage, micro) found so far, one bit per kind.  Only the first
     * n_cells cells are stored: if there are fewer actions than cells, actions of the stored
     * cells are already missing. */
    uint8_t *cells;
    size_t n_cells, n_all_cells;
    bool lowered, forward_only;
};

/* How the text of a finding starts.  A missing action is named by its stage and micro: its
 * position is only a place where the action could be inserted. */
enum wf_finding_prefix {
    WF_FINDING_PLAIN,
    WF_FINDING_RANK,   /* "rank 1: " */
    WF_FINDING_ACTION, /* "rank 1, action 7: " */
};

/* Adds a finding.  A `position` of SIZE_MAX means that the finding has no position. */
void wf_verifier_add(struct wf_verifier *p, enum weft_rule rule, enum wf_finding_prefix prefix,
                     uint32_t rank, size_t position, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Returns the index of a cell. */
static inline size_t wf_verifier_cell(const struct wf_verifier *p, uint32_t stage,
                                      uint32_t micro)
{
    return (size_t)stage * p->place->n_micros + micro;
}

/* Returns true if stage `other` exists and is on a different rank than `stage` for this
 * micro. */
static inline bool wf_verifier_remote(const struct wf_verifier *p, uint32_t stage,
                                      int64_t other, uint32_t micro)
{
    return other >= 0 && other < p->place->n_stages &&
           wf_deps_remote(&p->rules, stage, (uint32_t)other, micro);
}

/* Checks that every action is listed once, on the right rank, and after the actions on that
 * rank that it depends on. */
enum weft_status wf_verify_cells(struct wf_verifier *p, struct weft_error *err);

/* Checks that every send and every reduction has one wait, if the schedule has waits. */
enum weft_status wf_verify_waits(struct wf_verifier *p, struct weft_error *err);

/* Checks that both endpoints of every channel list the same sequence of messages. */
enum weft_status wf_verify_channels(struct wf_verifier *p, const struct wf_channels *channels,
                                    struct weft_error *err);

/* Checks that the schedule does not deadlock with channels of this depth. */
enum weft_status wf_verify_progress(struct wf_verifier *p, const struct wf_channels *channels,
                                    size_t depth, struct weft_error *err);

#endif
