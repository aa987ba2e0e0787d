/* The verifier: stores findings and runs the passes in order. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/verify/verify_priv.h"

const char *weft_rule_name(enum weft_rule rule)
{
    static const char *const names[] = {
#define WF_RULE_ROW(name, json, text) json,
        WEFT_RULE_MAP(WF_RULE_ROW)
#undef WF_RULE_ROW
    };
    return (size_t)rule < WEFT_LEN(names) ? names[rule] : "?";
}

/* Writes the prefix of a finding and returns its length. */
static int write_prefix(struct weft_finding *f, enum wf_finding_prefix prefix)
{
    switch (prefix) {
    case WF_FINDING_PLAIN:
        break;
    case WF_FINDING_RANK:
        return snprintf(f->text, sizeof f->text, "rank %u: ", f->rank);
    case WF_FINDING_ACTION:
        return snprintf(f->text, sizeof f->text, "rank %u, action %zu: ", f->rank, f->position);
    }
    return 0;
}

void wf_verifier_add(struct wf_verifier *p, enum weft_rule rule, enum wf_finding_prefix prefix,
                     uint32_t rank, size_t position, const char *format, ...)
{
    struct weft_verify_result *r = p->result;
    if (r->n_findings++ >= WEFT_MAX_FINDINGS)
        return;

    struct weft_finding *f = &r->findings[r->n_findings - 1];
    *f = (struct weft_finding){
        .rule = rule, .has_position = position != SIZE_MAX, .rank = rank, .position = position};
    va_list args;
    f->detail = (uint8_t)write_prefix(f, prefix);
    va_start(args, format);
    vsnprintf(f->text + f->detail, sizeof f->text - f->detail, format, args);
    va_end(args);
}

static enum weft_status verifier_init(struct wf_verifier *p, const struct weft_schedule *s,
                                      struct weft_verify_result *r, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    size_t n_actions = weft_schedule_n_actions(s);
    bool lowered = weft_schedule_is_lowered(s);
    *r = (struct weft_verify_result){.n_ranks = place->n_ranks};
    *p = (struct wf_verifier){.s = s,
                              .place = place,
                              .rules = {place, lowered},
                              .result = r,
                              .lowered = lowered,
                              .forward_only = weft_schedule_is_forward_only(s)};

    if (!wf_size_mul(place->n_stages, place->n_micros, &p->n_all_cells))
        p->n_all_cells = SIZE_MAX;
    p->n_cells = wf_size_min(p->n_all_cells, n_actions + 1);
    p->cells = calloc(p->n_cells + 1, 1);
    r->findings = malloc(sizeof *r->findings * WEFT_MAX_FINDINGS);
    r->peak_activations = calloc(place->n_ranks, sizeof *r->peak_activations);
    if (p->cells == NULL || r->findings == NULL || r->peak_activations == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to verify %zu actions", n_actions);
    return WEFT_OK;
}

/* Counts the channels of the schedule.  A forward-only schedule uses only the forward ones. */
static enum weft_status count_channels(struct wf_verifier *p, const struct wf_channels *c,
                                       struct weft_error *err)
{
    size_t n = (size_t)p->place->n_pipes * (p->place->n_stages - 1);
    p->result->n_channels = c->n;
    if (!p->forward_only)
        return WEFT_OK;
    bool *used = calloc(c->n + 1, sizeof *used);
    if (used == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to count %zu channels", c->n);
    p->result->n_channels = 0;
    for (size_t i = 0; i < n; i++) {
        if (c->forward[i] == WF_CHANNEL_NONE || used[c->forward[i]])
            continue;
        used[c->forward[i]] = true;
        p->result->n_channels++;
    }
    free(used);
    return WEFT_OK;
}

/* Runs the passes.  A pass runs only if the earlier passes found nothing. */
static enum weft_status run_passes(struct wf_verifier *p,
                                   const struct weft_channel_model *model,
                                   struct weft_error *err)
{
    WEFT_TRY(wf_verify_cells(p, err));
    if (p->result->n_findings == 0)
        WEFT_TRY(wf_verify_waits(p, err));
    if (p->result->n_findings > 0)
        return WEFT_OK;
    struct wf_channels channels;
    WEFT_TRY(wf_channels_init(&channels, p->place, model->by_pair, err));
    enum weft_status st = count_channels(p, &channels, err);
    if (st == WEFT_OK && p->lowered)
        st = wf_verify_channels(p, &channels, err);
    if (st == WEFT_OK && p->result->n_findings == 0)
        st = wf_verify_progress(p, &channels, model->depth, err);
    wf_channels_release(&channels);
    return st;
}

enum weft_status weft_verify(const struct weft_schedule *s,
                             const struct weft_channel_model *model,
                             struct weft_verify_result *out, struct weft_error *err)
{
    static const struct weft_channel_model buffered = {.depth = WEFT_CHANNEL_BUFFERED};
    struct weft_verify_result result;
    struct wf_verifier p;
    enum weft_status st = verifier_init(&p, s, &result, err);
    if (st == WEFT_OK)
        st = run_passes(&p, model == NULL ? &buffered : model, err);
    free(p.cells);
    if (st == WEFT_OK)
        *out = result;
    else
        weft_verify_result_release(&result);
    return st;
}

void weft_verify_result_release(struct weft_verify_result *r)
{
    free(r->findings);
    free(r->cycle);
    free(r->peak_activations);
    *r = (struct weft_verify_result){0};
}
