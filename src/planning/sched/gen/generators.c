/* The table of generators, and generation by name. */
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "planning/sched/gen/gen.h"
#include "planning/sched/placement.h"

static const struct weft_generator table[] = {
    {"gpipe", "All forwards, then all backwards; for each micro-batch, all chunks in order.",
     "any P, M, chunks", 1, WEFT_GEN_USES_CHUNKS, wf_gen_gpipe},
    {"1f1b", "One forward, one backward: the plain pipeline, peak min(P - r, M).", "any P, M",
     1, 0, wf_gen_1f1b},
    {"eager-1f1b", "1F1B with twice the warm-up, which hides the hops.", "any P, M", 1, 0,
     wf_gen_eager_1f1b},
    {"1f1b-split", "1F1B with each backward as input, then weight gradient.", "any P, M", 1, 0,
     wf_gen_1f1b_split},
    {"interleaved-1f1b", "Depth-first loop over several chunks per rank: a smaller bubble.",
     "any P, M, chunks; group as in Megatron", 2, WEFT_GEN_USES_CHUNKS | WEFT_GEN_USES_GROUP,
     wf_gen_interleaved_1f1b},
    {"looped-bfs", "Breadth-first loop: the gradients of a chunk are complete early.",
     "any P, M, chunks", 2, WEFT_GEN_USES_CHUNKS, wf_gen_looped_bfs},
    {"zb-h1", "Zero bubble H1: weight gradients fill the cool-down; peak memory of 1F1B.",
     "any P, M", 1, 0, wf_gen_zb_h1},
    {"zb-h2", "Zero bubble H2: no bubble by span if F = I = W; twice the memory.", "any P, M",
     1, 0, wf_gen_zb_h2},
    {"zb-auto", "Zero bubble found by search, for given costs and memory.",
     "any P, M; default memory limit: that of 1F1B", 1, WEFT_GEN_USES_COST, wf_gen_zb_auto},
    {"interleaved-zb", "Interleaved 1F1B with late weight gradients.",
     "any P, M, chunks; group as in Megatron", 2, WEFT_GEN_USES_CHUNKS | WEFT_GEN_USES_GROUP,
     wf_gen_interleaved_zb},
    {"zb-v",
     "Zero bubble with V placement: each rank has an early and a late stage; no bubble by "
     "span if F = I = W; memory of 1F1B.",
     "any P, M; 2 chunks", 2, 0, wf_gen_zb_v},
    {"zb-v-auto", "V placement, order found by search for given costs and memory.",
     "any P, M; 2 chunks; default memory limit: 2P activations", 2, WEFT_GEN_USES_COST,
     wf_gen_zb_v_auto},
    {"v-half", "V placement with half of the memory of 1F1B.", "any P, M; 2 chunks", 2,
     WEFT_GEN_USES_COST, wf_gen_v_half},
    {"v-min", "V placement with a third of the memory of 1F1B.", "any P, M; 2 chunks", 2,
     WEFT_GEN_USES_COST, wf_gen_v_min},
    {"1f1b-v", "V placement with whole backwards and about two thirds of the memory of 1F1B.",
     "any P, M; 2 chunks", 2, WEFT_GEN_USES_COST, wf_gen_1f1b_v},
    {"wave", "Hanayo: stages in ascending, then descending order of ranks; P micros in flight.",
     "any P, M, chunks (2 per wave)", 2, WEFT_GEN_USES_CHUNKS, wf_gen_wave},
    {"chimera",
     "Pipes in both directions through the same ranks; one copy of the weights per "
     "pipe.",
     "even P, any M; pipes even and a divisor of P", 1, WEFT_GEN_USES_PIPES, wf_gen_chimera},
    {"dualpipe",
     "Two directions with overlapped forward-backward pairs; two copies of the weights.",
     "even P, even M >= 2P", 1, 0, wf_gen_dualpipe},
    {"dualpipe-v", "One half of DualPipe in a V placement: one copy of the weights.",
     "any P, M >= 2P; 2 chunks", 2, 0, wf_gen_dualpipe_v},
    {"bitpipe", "Two V pipelines in opposite directions; two copies of the weights.",
     "even P >= 4, M a multiple of P; 4 chunks", 4, 0, wf_gen_bitpipe},
    {"greedy-gpipe", "In every tick a forward if one is ready, or else a backward.",
     "any P, M, chunks", 1, WEFT_GEN_USES_CHUNKS | WEFT_GEN_UNIT_TICKS, wf_gen_greedy_gpipe},
    {"greedy-1f1b", "In every tick a backward if one is ready, or else a forward.",
     "any P, M, chunks", 1, WEFT_GEN_USES_CHUNKS | WEFT_GEN_UNIT_TICKS, wf_gen_greedy_1f1b},
};

const struct weft_generator *weft_generator_list(size_t *n)
{
    *n = WEFT_LEN(table);
    return table;
}

const struct weft_generator *weft_generator_find(const char *name)
{
    for (size_t i = 0; i < WEFT_LEN(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

enum weft_placement_kind wf_generator_placement(const struct weft_generator *g)
{
    return g->default_chunks == 1 ? WEFT_PLACEMENT_LINEAR : WEFT_PLACEMENT_V;
}

/* Checks the parameters that all generators share, and sets the default number of chunks. */
static enum weft_status check_params(const struct weft_generator *g, struct weft_gen_params *p,
                                     struct weft_error *err)
{
    if (p->ranks == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: ranks is 0 (expected at least 1)", g->name);
    if (p->micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: micros is 0 (expected at least 1)", g->name);

    if (p->chunks == 0)
        p->chunks = g->default_chunks;
    if (!(g->flags & WEFT_GEN_USES_CHUNKS) && p->chunks != g->default_chunks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s has %u chunk%s per rank (got %u); omit chunks, or use a schedule "
                         "with any number of chunks",
                         g->name, g->default_chunks, wf_plural(g->default_chunks), p->chunks);
    if ((uint64_t)p->ranks * p->chunks > WEFT_MAX_STAGES)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: too many stages (%u rank%s x %u chunk%s; maximum %d)", g->name,
                         p->ranks, wf_plural(p->ranks), p->chunks, wf_plural(p->chunks),
                         WEFT_MAX_STAGES);

    if (g->flags & WEFT_GEN_USES_COST)
        WEFT_TRY(weft_cost_check(p->cost, p->memory, p->ranks, p->ranks * p->chunks, p->micros,
                                 err));
    if (p->pipes != 0 && !(g->flags & WEFT_GEN_USES_PIPES))
        return WEFT_FAIL(err, WEFT_USAGE, "%s has no parameter pipes; only chimera has it",
                         g->name);
    if (p->group != 0 && !(g->flags & WEFT_GEN_USES_GROUP))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s has no parameter group; only interleaved schedules have it",
                         g->name);
    if (p->group > p->micros)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: a group of %u micros is larger than the number of micros (%u)",
                         g->name, p->group, p->micros);
    return WEFT_OK;
}

enum weft_status weft_schedule_generate(const char *name, const struct weft_gen_params *params,
                                        struct weft_schedule **out, struct weft_error *err)
{
    const struct weft_generator *g = weft_generator_find(name);
    if (g == NULL) {
        const char *near =
            wf_text_nearest(name, &table[0].name, WEFT_LEN(table), sizeof table[0]);
        return WEFT_FAIL(err, WEFT_USAGE, "no schedule is called %.40s%s%s%s", name,
                         near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
                         near == NULL ? "" : "?");
    }
    struct weft_gen_params checked = *params;
    WEFT_TRY(check_params(g, &checked, err));
    return g->make(&checked, out, err);
}
