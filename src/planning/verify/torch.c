/* Checks a schedule against the rules of PyTorch's pipeline runtime that weft_verify() does not
 * cover: what the runtime refuses, what it runs with wrong results, and what its users should
 * know. */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "weft/verify.h"

/* What a schedule contains, over all ranks. */
struct contents {
    bool backwards, split_first; /* split_first: stage 0 has I and W */
    bool reductions, unshards, waits;
};

__attribute__((format(printf, 4, 5))) static void add(struct weft_torch_report *r,
                                                      enum weft_torch_severity severity,
                                                      const struct weft_finding_place *place,
                                                      const char *format, ...)
{
    if (r->n >= WEFT_MAX_TORCH_FINDINGS)
        return;
    struct weft_torch_finding *f = &r->at[r->n++];
    *f = (struct weft_torch_finding){.severity = severity};
    if (place != NULL)
        f->place = *place;
    f->has_place = place != NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

static struct contents scan(const struct weft_schedule *s)
{
    struct contents c = {.backwards = false};
    for (uint32_t r = 0; r < weft_schedule_placement(s)->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++) {
            unsigned kind = row.at[i].kind;
            c.backwards |= kind == WEFT_ACT_B || kind == WEFT_ACT_I;
            c.split_first |= kind == WEFT_ACT_I && row.at[i].stage == 0;
            c.reductions |= kind == WEFT_ACT_REDUCE_GRAD;
            c.unshards |= kind == WEFT_ACT_UNSHARD;
            c.waits |= weft_act_is_send_wait(kind) || kind == WEFT_ACT_WAIT_REDUCE_GRAD;
        }
    }
    return c;
}

/* PyTorch keeps the losses in the order in which the last stage computes them, and takes the
 * loss of micro-batch m from position m. */
static void check_losses(const struct weft_schedule *s, struct weft_torch_report *out)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    uint32_t last = place->n_stages - 1, rank = weft_placement_rank(place, last, 0), next = 0;
    struct weft_action_span row = weft_schedule_rank(s, rank);
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if (a.kind != WEFT_ACT_F || a.stage != last)
            continue;
        if (a.micro != next) {
            add(out, WEFT_TORCH_SEVERITY_WRONG, &(struct weft_finding_place){rank, i},
                "rank %u, action %zu: the last stage runs micro %u before micro %u; PyTorch "
                "then takes the loss of one for the other",
                rank, i, a.micro, next);
            return;
        }
        next++;
    }
}

static void check_messages(const struct weft_schedule *s, const struct contents *c,
                           struct weft_torch_report *out)
{
    uint32_t micros = weft_schedule_placement(s)->n_micros;
    if (c->backwards && !c->reductions && micros > 1)
        add(out, WEFT_TORCH_SEVERITY_WRONG, NULL,
            "REDUCE_GRAD is missing: PyTorch scales gradients there, so they are %u times too "
            "large",
            micros);
    if (!c->unshards)
        add(out, WEFT_TORCH_SEVERITY_NOTE, NULL,
            "UNSHARD is missing: PyTorch refuses the schedule if stages are sharded by FSDP");
    add(out, WEFT_TORCH_SEVERITY_NOTE, NULL,
        c->waits ? "the schedule has waits: PyTorch 2.15 accepts them, 2.14 does not"
                 : "the schedule has no waits: PyTorch 2.10 to 2.14 accept it, 2.15 does not");
}

void weft_torch_check(const struct weft_schedule *s, struct weft_torch_report *out)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    struct contents c = scan(s);
    *out = (struct weft_torch_report){.n = 0};
    if (place->n_pipes > 1)
        add(out, WEFT_TORCH_SEVERITY_REFUSED, NULL,
            "a stage runs on several ranks; PyTorch runs each stage on one rank");
    if (!c.backwards)
        add(out, WEFT_TORCH_SEVERITY_REFUSED, NULL,
            "the schedule has no backward; PyTorch's tables need one for every forward");
    if (out->n > 0)
        return;

    check_losses(s, out);
    if (weft_schedule_is_lowered(s))
        check_messages(s, &c, out);
    if (c.split_first)
        add(out, WEFT_TORCH_SEVERITY_NOTE, NULL,
            "PyTorch computes the whole backward of stage 0 in its W: its costs are I=0, W=B");
}
