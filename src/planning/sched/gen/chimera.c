/* Chimera: f pairs of pipes through the same D ranks.  Each pair has one down pipe and one up
 * pipe, so that each pipe fills the bubble of the other.  A unit is D micros, D/(2f) per pipe.
 * Micro i of a unit runs stage s
 *
 *     forward in tick 2i + s,   backward in tick 2i + 2D - 1 - s
 *
 * and the next unit starts 2D ticks later.  Down pipe j starts on rank jD/f, and the up pipe of
 * this pair starts on the preceding rank.  Because D is even and f divides D/2, all forwards
 * and backwards on a rank then have different ticks.  The last unit may have fewer micros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "planning/sched/gen/gen.h"
#include "planning/sched/schedule_priv.h"

struct timed {
    uint64_t tick;
    struct weft_action action;
};

struct chimera {
    uint32_t ranks, pipes, micros;
    struct timed *list; /* owned: (2 * micros), the actions of one rank */
    size_t n;
};

static uint32_t rank_of_stage(const struct chimera *c, uint32_t pipe, uint32_t stage)
{
    uint32_t pairs = c->pipes / 2;
    uint32_t shift = (pipe % pairs) * (c->ranks / pairs);
    return ((pipe < pairs ? stage : c->ranks - 1 - stage) + shift) % c->ranks;
}

/* Returns the stage of a pipe on a rank. */
static uint32_t stage_on_rank(const struct chimera *c, uint32_t pipe, uint32_t rank)
{
    uint32_t pairs = c->pipes / 2;
    uint32_t shift = (pipe % pairs) * (c->ranks / pairs);
    uint32_t at = (rank + c->ranks - shift) % c->ranks;
    return pipe < pairs ? at : c->ranks - 1 - at;
}

static void put(struct chimera *c, uint64_t tick, enum weft_act_kind kind, uint32_t stage,
                uint32_t micro)
{
    c->list[c->n++] = (struct timed){
        tick, {.micro = micro, .stage = stage & (WEFT_MAX_STAGES - 1), .kind = kind & 0x7f}};
}

static int by_tick(const void *pa, const void *pb)
{
    const struct timed *a = pa, *b = pb;
    return (a->tick > b->tick) - (a->tick < b->tick);
}

static void emit_rank(struct chimera *c, struct wf_builder *b, uint32_t rank)
{
    uint64_t unit_ticks = 2 * (uint64_t)c->ranks;
    uint32_t per_unit = c->ranks / c->pipes;
    c->n = 0;
    for (uint32_t pipe = 0; pipe < c->pipes; pipe++) {
        uint32_t s = stage_on_rank(c, pipe, rank);
        uint32_t first = wf_pipe_first_micro(c->micros, c->pipes, pipe);
        uint32_t n = wf_pipe_first_micro(c->micros, c->pipes, pipe + 1) - first;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = i / per_unit * unit_ticks + 2 * (i % per_unit);
            put(c, at + s, WEFT_ACT_F, s, first + i);
            put(c, at + unit_ticks - 1 - s, WEFT_ACT_B, s, first + i);
        }
    }
    qsort(c->list, c->n, sizeof *c->list, by_tick);
    for (size_t i = 0; i < c->n; i++)
        wf_builder_add(b, rank, c->list[i].action.kind, c->list[i].action.stage,
                       c->list[i].action.micro);
}

static enum weft_status check(const struct weft_gen_params *params, uint32_t pipes,
                              struct weft_error *err)
{
    uint32_t ranks = params->ranks;
    if (ranks % 2 != 0)
        return ranks == 1
                   ? WEFT_FAIL(err, WEFT_USAGE,
                               "chimera needs an even number of ranks (got 1); use 2")
                   : WEFT_FAIL(err, WEFT_USAGE,
                               "chimera needs an even number of ranks (got %u); use %u or %u",
                               ranks, ranks - 1, ranks + 1);

    if (pipes % 2 != 0 || ranks % pipes != 0 || pipes > UINT16_MAX) {
        char fit[120] = "";
        for (uint32_t k = 2; k <= ranks && strlen(fit) < 100; k += 2)
            if (ranks % k == 0)
                snprintf(fit + strlen(fit), sizeof fit - strlen(fit), " %u", k);
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "chimera cannot run %u pipe%s on %u ranks (the number must be even and "
            "divide the ranks); use one of%s",
            pipes, wf_plural(pipes), ranks, fit);
    }
    return WEFT_OK;
}

WF_GENERATOR(chimera)
{
    struct chimera c = {.ranks = params->ranks,
                        .pipes = params->pipes == 0 ? 2 : params->pipes,
                        .micros = params->micros};
    WEFT_TRY(check(params, c.pipes, err));

    struct wf_builder b;
    struct wf_shape shape = {c.ranks, c.ranks, c.micros, c.pipes};
    WEFT_TRY(wf_builder_init(&b, "chimera", shape, 2, 0, err));
    for (uint32_t pipe = 0; pipe < c.pipes; pipe++)
        for (uint32_t s = 0; s < c.ranks; s++)
            b.rank_of[(size_t)pipe * c.ranks + s] = rank_of_stage(&c, pipe, s);
    wf_builder_place_explicit(&b);

    c.list = malloc(sizeof *c.list * 2 * c.micros);
    if (c.list == NULL) {
        wf_builder_release(&b);
        return WEFT_FAIL(err, WEFT_NOMEM, "chimera: no memory for %u micros", c.micros);
    }
    for (uint32_t r = 0; r < c.ranks; r++)
        emit_rank(&c, &b, r);
    free(c.list);
    return wf_builder_finish(&b, out, err);
}
