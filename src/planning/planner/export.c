/* Expresses plans as settings of Megatron-LM and torchtitan. */
#include "planning/planner/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static const char *schedule_name(const struct weft_schedule *s)
{
    const char *name = weft_schedule_name(s);
    return name[0] != '\0' ? name : "the schedule";
}

/* Returns the number of stages per rank, or 0 if it differs between ranks. */
static uint32_t stages_per_rank(const struct weft_schedule *s)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    uint32_t chunks = weft_schedule_n_chunks(s);
    return (uint64_t)chunks * place->n_ranks == place->n_stages ? chunks : 0;
}

/* Checks what both programs require. */
static enum weft_status check_plan(const struct weft_schedule *s,
                                   const struct weft_partition *p, const char *program,
                                   struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    if (p->n_stages != place->n_stages)
        return WEFT_FAIL(err, WEFT_USAGE, "the schedule has %u stages, the partition %u",
                         place->n_stages, p->n_stages);
    if (weft_schedule_is_forward_only(s))
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %s has no backward", program, schedule_name(s));
    if (place->n_pipes > 1)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s requires each stage on one rank; %s runs stages on several ranks",
                         program, schedule_name(s));
    if (stages_per_rank(s) == 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%s requires the same number of stages on every rank; in %s the numbers differ",
            program, schedule_name(s));
    return WEFT_OK;
}

static bool is_loop(const struct weft_placement *place)
{
    for (uint32_t s = 0; s < place->n_stages; s++)
        if (place->rank_of[s] != s % place->n_ranks)
            return false;
    return true;
}

static bool is_v(const struct weft_placement *place)
{
    for (uint32_t s = 0; s < place->n_stages; s++)
        if (place->rank_of[s] != (s < place->n_ranks ? s : place->n_stages - 1 - s))
            return false;
    return place->n_stages == 2 * place->n_ranks;
}

static enum weft_status detach_text(struct wf_text *text, char **out, struct weft_error *err)
{
    if (text->failed) {
        wf_text_release(text);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to print settings");
    }
    *out = text->at;
    return WEFT_OK;
}

/* -- Megatron-LM ---------------------------------------------------------------------------- */

/* Returns the next compute action of a row and moves *at behind it, or NULL. */
static const struct weft_action *next_compute(struct weft_action_span row, size_t *at)
{
    while (*at < row.len && !weft_act_is_compute(row.at[*at].kind))
        ++*at;
    return *at < row.len ? &row.at[(*at)++] : NULL;
}

static bool same_order(const struct weft_schedule *a, const struct weft_schedule *b)
{
    for (uint32_t r = 0; r < weft_schedule_placement(a)->n_ranks; r++) {
        struct weft_action_span x = weft_schedule_rank(a, r), y = weft_schedule_rank(b, r);
        const struct weft_action *p, *q;
        size_t i = 0, j = 0;
        do {
            p = next_compute(x, &i);
            q = next_compute(y, &j);
            if ((p == NULL) != (q == NULL) ||
                (p != NULL && (p->kind != q->kind || p->stage != q->stage ||
                               p->micro != q->micro || p->paired != q->paired)))
                return false;
        } while (p != NULL);
    }
    return true;
}

/* Returns the number of forwards with which rank 0 starts before it changes to its next stage:
 * the size of the first group of an interleaved schedule. */
static uint32_t first_group(const struct weft_schedule *s)
{
    struct weft_action_span row = weft_schedule_rank(s, 0);
    const struct weft_action *a;
    uint32_t n = 0;
    for (size_t i = 0; (a = next_compute(row, &i)) != NULL; n++)
        if (a->kind != WEFT_ACT_F || a->stage != 0)
            break;
    return n;
}

/* Generates Megatron's schedule of the same sizes and compares the orders. */
static enum weft_status check_order(const struct weft_schedule *s, uint32_t chunks,
                                    uint32_t group, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    const struct weft_gen_params params = {.ranks = place->n_ranks,
                                           .micros = place->n_micros,
                                           .chunks = chunks,
                                           .group = chunks > 1 ? group : 0};
    struct weft_schedule *like = NULL;
    WEFT_TRY(
        weft_schedule_generate(chunks > 1 ? "interleaved-1f1b" : "1f1b", &params, &like, err));
    bool same = same_order(s, like);
    weft_schedule_free(like);
    if (!same)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "Megatron-LM runs 1f1b and interleaved-1f1b; it cannot run the order of "
            "%s",
            schedule_name(s));
    return WEFT_OK;
}

static enum weft_status check_group(uint32_t ranks, uint32_t micros, uint32_t group,
                                    struct weft_error *err)
{
    if (group < ranks)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "Megatron-LM: a group of %u micro-batches is smaller than the pipeline "
            "(%u ranks)",
            group, ranks);
    if (micros % group != 0 && micros % group < ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "Megatron-LM: the last group of micro-batches has %u; it must have at "
                         "least %u, one per rank",
                         micros % group, ranks);
    return WEFT_OK;
}

/* Fills in the counts of layers. */
static void count_layers(struct wf_megatron *m, const struct weft_partition *p)
{
    uint32_t first = p->at[0].end_layer - p->at[0].first_layer;
    m->n_layers = p->at[p->n_stages - 1].end_layer;
    m->layers_per_stage = first;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        if (p->at[s].end_layer - p->at[s].first_layer != first)
            m->layers_per_stage = 0;
        m->n_mtp += p->at[s].n_mtp;
    }
}

enum weft_status wf_megatron_init(struct wf_megatron *out, const struct weft_schedule *s,
                                  const struct weft_partition *p, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    struct wf_megatron m = {.pipeline_size = place->n_ranks, .n_micros = place->n_micros};
    WEFT_TRY(check_plan(s, p, "Megatron-LM", err));
    m.virtual_size = stages_per_rank(s);
    if (!is_loop(place))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "Megatron-LM places stage s on rank s mod %u; the placement of %s is "
                         "%s",
                         place->n_ranks, schedule_name(s),
                         weft_placement_name(weft_schedule_placement_kind(s)));
    if (m.virtual_size > 1 && m.pipeline_size == 1)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "Megatron-LM: several stages per rank need at least 2 ranks");
    m.group_size = m.virtual_size > 1 ? first_group(s) : 0;
    WEFT_TRY(check_order(s, m.virtual_size, m.group_size, err));
    if (m.group_size > 0)
        WEFT_TRY(check_group(m.pipeline_size, m.n_micros, m.group_size, err));
    for (uint32_t k = 0; k + m.pipeline_size < p->n_stages; k++)
        if (p->at[k].n_mtp > 0)
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "Megatron-LM: layers for multi-token prediction must be on the last "
                "stage of a rank; stage %u is not",
                k);
    count_layers(&m, p);
    WEFT_TRY(weft_partition_print_pattern(p, &m.layout, err));
    *out = m;
    return WEFT_OK;
}

void wf_megatron_release(struct wf_megatron *m)
{
    free(m->layout);
    *m = (struct wf_megatron){0};
}

enum weft_status wf_megatron_print(const struct wf_megatron *m, char **out,
                                   struct weft_error *err)
{
    struct wf_text text = {0};
    wf_text_addf(&text, "# %s\n", WF_MEGATRON_VERSION);
    wf_text_addf(
        &text,
        "# %u micro-batches per step: --global-batch-size is %u x --micro-batch-size x "
        "data-parallel size\n",
        m->n_micros, m->n_micros);
    if (m->virtual_size > 1 && m->layers_per_stage > 0 && m->n_mtp == 0)
        wf_text_addf(
            &text,
            "# virtual pipeline size %u, from the layout; all stages are equal, so that "
            "instead of the layout\n# --num-layers-per-virtual-pipeline-stage %u does "
            "the same\n",
            m->virtual_size, m->layers_per_stage);
    else
        wf_text_addf(&text, "# virtual pipeline size %u, from the layout\n", m->virtual_size);
    wf_text_addf(&text, "--pipeline-model-parallel-size %u \\\n", m->pipeline_size);
    wf_text_addf(&text, "--num-layers %u \\\n", m->n_layers);
    if (m->n_mtp > 0)
        wf_text_addf(&text, "--mtp-num-layers %u \\\n", m->n_mtp);
    if (m->group_size > 0)
        wf_text_addf(&text, "--microbatch-group-size-per-virtual-pipeline-stage %u \\\n",
                     m->group_size);
    wf_text_addf(&text, "--pipeline-model-parallel-layout '%s'\n", m->layout);
    return detach_text(&text, out, err);
}

/* -- torchtitan ----------------------------------------------------------------------------- */

/* Returns the class of PyTorch whose placement torchtitan uses, or NULL. */
static const char *placement_class(const struct weft_schedule *s)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    if (is_loop(place))
        return place->n_stages == place->n_ranks ? "1F1B" : "PipelineScheduleMulti";
    return is_v(place) ? "ZBVZeroBubble" : NULL;
}

/* Chooses a name for the file of the schedule. */
static void choose_file(const struct weft_schedule *s, char out[64])
{
    const char *name = weft_schedule_name(s);
    bool plain = name[0] != '\0' && strlen(name) < 60 &&
                 strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789-_.") == strlen(name);
    snprintf(out, 64, "%s.csv", plain ? name : "schedule");
}

enum weft_status wf_torchtitan_init(struct wf_torchtitan *out, const struct weft_schedule *s,
                                    const struct weft_partition *p, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    struct wf_torchtitan t = {
        .pipeline_degree = place->n_ranks, .n_micros = place->n_micros, .partition = p};
    WEFT_TRY(check_plan(s, p, "torchtitan", err));
    t.schedule = placement_class(s);
    if (t.schedule == NULL)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "torchtitan places stages in a loop or, with two stages per rank, in a "
            "V; the placement of %s is %s with %u stages per rank",
            schedule_name(s), weft_placement_name(weft_schedule_placement_kind(s)),
            stages_per_rank(s));
    for (uint32_t k = 0; k < p->n_stages; k++) {
        if (p->at[k].n_mtp > 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "torchtitan's models have no layers for multi-token prediction; "
                             "stage %u has some",
                             k);
        if (wf_torchtitan_n_modules(&t, k) == 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "torchtitan: stage %u has no layer; every stage needs a module",
                             k);
    }
    choose_file(s, t.csv);
    *out = t;
    return WEFT_OK;
}

uint32_t wf_torchtitan_n_modules(const struct wf_torchtitan *t, uint32_t stage)
{
    const struct weft_stage_range *r = &t->partition->at[stage];
    return r->embedding + (r->end_layer - r->first_layer) + (r->head ? 2 : 0);
}

void wf_torchtitan_module(const struct wf_torchtitan *t, uint32_t stage, uint32_t index,
                          char out[WF_MODULE_NAME])
{
    const struct weft_stage_range *r = &t->partition->at[stage];
    uint32_t n_layers = r->end_layer - r->first_layer, layer = index - r->embedding;
    if (r->embedding && index == 0)
        snprintf(out, WF_MODULE_NAME, "tok_embeddings");
    else if (layer < n_layers)
        snprintf(out, WF_MODULE_NAME, "layers.%u", r->first_layer + layer);
    else
        snprintf(out, WF_MODULE_NAME, "%s", layer == n_layers ? "norm" : "lm_head");
}

enum weft_status wf_torchtitan_print(const struct wf_torchtitan *t, char **out,
                                     struct weft_error *err)
{
    static const char prefix[] = "config.parallelism.";
    struct wf_text text = {0};
    wf_text_addf(&text, "# %s\n", WF_TORCHTITAN_VERSION);
    wf_text_addf(&text,
                 "# %s is the file of the schedule in PyTorch's format, without messages\n"
                 "# the head of a model is lm_head or, in other versions, output\n",
                 t->csv);
    wf_text_addf(&text, "%spipeline_parallel_degree = %u\n", prefix, t->pipeline_degree);
    wf_text_addf(&text,
                 "%spipeline_parallel_schedule = \"%s\"  # selects the placement, not the "
                 "order\n",
                 prefix, t->schedule);
    wf_text_addf(&text, "%spipeline_parallel_schedule_csv = \"%s\"\n", prefix, t->csv);
    wf_text_addf(&text, "%snum_pp_microbatches = %u\n", prefix, t->n_micros);
    wf_text_addf(&text, "%smodule_fqns_per_model_part = [\n", prefix);
    for (uint32_t s = 0; s < t->partition->n_stages; s++) {
        wf_text_adds(&text, "    [");
        for (uint32_t k = 0; k < wf_torchtitan_n_modules(t, s); k++) {
            char name[WF_MODULE_NAME];
            wf_torchtitan_module(t, s, k, name);
            wf_text_addf(&text, "%s\"%s\"", k > 0 ? ", " : "", name);
        }
        wf_text_adds(&text, "],\n");
    }
    wf_text_adds(&text, "]\n");
    return detach_text(&text, out, err);
}

/* -- by name -------------------------------------------------------------------------------- */

enum weft_status wf_export_print(const char *program, const struct weft_schedule *s,
                                 const struct weft_partition *p, char **out,
                                 struct weft_error *err)
{
    struct wf_megatron m;
    struct wf_torchtitan t;
    if (strcmp(program, "torchtitan") == 0) {
        WEFT_TRY(wf_torchtitan_init(&t, s, p, err));
        return wf_torchtitan_print(&t, out, err);
    }
    if (strcmp(program, "megatron") != 0)
        return WEFT_FAIL(err, WEFT_USAGE, "'%.40s' is neither megatron nor torchtitan",
                         program);
    WEFT_TRY(wf_megatron_init(&m, s, p, err));
    enum weft_status st = wf_megatron_print(&m, out, err);
    wf_megatron_release(&m);
    return st;
}
