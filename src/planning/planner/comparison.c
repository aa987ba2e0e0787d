/* Generates, times and compares all schedules for given numbers of ranks and micros. */
#include "planning/planner/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "planning/planner/simulation.h"

/* -- costs ---------------------------------------------------------------------------------- */

/* The costs of one stage of a schedule.  They are a fraction of the costs of 1/P of the
 * model, where P is the number of ranks. */
struct share {
    double store[8];
    struct weft_cost cost;
    struct weft_memory_cost memory;
};

/* Returns a list of one number, which is stored in *store: the single value of `v`, or
 * `otherwise`, times `by`.  Returns a list with several values as it is. */
static struct weft_values scale(struct weft_values v, double by, double otherwise,
                                double *store)
{
    if (v.n > 1)
        return v;
    *store = weft_values_get(v, 0, otherwise) * by;
    return (struct weft_values){store, 1};
}

/* Computes the costs of a stage that is the fraction `by` of a rank's share. */
static void share_out(struct share *out, const struct wf_plan_input *in, double by)
{
    static const struct weft_cost no_cost;
    static const struct weft_memory_cost no_memory;
    const struct weft_cost *cost = in->params.cost != NULL ? in->params.cost : &no_cost;
    const struct weft_memory_cost *memory =
        in->params.memory != NULL ? in->params.memory : &no_memory;
    out->cost = *cost;
    if (in->model == NULL && !in->item_costs) {
        out->cost.f = scale(cost->f, by, 1, &out->store[0]);
        out->cost.i = scale(cost->i, by, 1, &out->store[1]);
        out->cost.w = scale(cost->w, by, 1, &out->store[2]);
    }
    if (cost->b.n == 1)
        out->cost.b = scale(cost->b, by, 0, &out->store[3]);
    if (cost->fb.n == 1)
        out->cost.fb = scale(cost->fb, by, 0, &out->store[4]);

    struct weft_stage_memory d = weft_memory_cost_stage(memory, 0);
    out->memory = *memory;
    if (in->limits_are_bytes)
        return; /* the items determine the memory */
    out->memory.f = scale(memory->f, by, 1, &out->store[5]);
    out->memory.i = scale(memory->i, by, 0, &out->store[6]);
    if (memory->w.n == 1 || (memory->w.n == 0 && memory->f.n <= 1 && memory->i.n <= 1))
        out->memory.w = scale(memory->w, by, d.w, &out->store[7]);
}

/* -- one schedule --------------------------------------------------------------------------- */

static enum weft_status add_row(struct wf_comparison *c, const struct wf_comparison_row *row,
                                struct weft_error *err)
{
    if (c->n == c->cap) {
        size_t cap = c->cap == 0 ? 32 : 2 * c->cap;
        struct wf_comparison_row *at = realloc(c->at, cap * sizeof *at);
        if (at == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu schedules", cap);
        c->at = at;
        c->cap = cap;
    }
    c->at[c->n++] = *row;
    return WEFT_OK;
}

/* Adds a schedule that cannot be compared.  A reason that starts with "name: " is stored without
 * this start. */
static enum weft_status omit(struct wf_comparison *c, const struct weft_generator *g,
                             uint32_t chunks, const char *reason, struct weft_error *err)
{
    size_t len = strlen(g->name);
    if (strncmp(reason, g->name, len) == 0 && strncmp(reason + len, ": ", 2) == 0)
        reason += len + 2;
    if (c->n_omitted == c->omitted_cap) {
        size_t cap = c->omitted_cap == 0 ? 32 : 2 * c->omitted_cap;
        struct wf_comparison_omission *at = realloc(c->omitted, cap * sizeof *at);
        if (at == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu schedules", cap);
        c->omitted = at;
        c->omitted_cap = cap;
    }
    struct wf_comparison_omission *o = &c->omitted[c->n_omitted++];
    *o = (struct wf_comparison_omission){.generator = g, .chunks = chunks};
    snprintf(o->reason, sizeof o->reason, "%.199s", reason);
    return WEFT_OK;
}

/* Returns WEFT_USAGE if a rank needs more bytes than its limit. */
static enum weft_status check_bytes(const struct wf_plan *plan, struct weft_values limits,
                                    struct weft_error *err)
{
    char need[WF_NUMBER_CHARS], most[WF_NUMBER_CHARS];
    for (uint32_t r = 0; limits.n > 0 && r < plan->bytes.n_ranks; r++) {
        double limit = weft_values_get(limits, r, 0), total = (double)plan->bytes.total[r];
        if (total > limit)
            return WEFT_FAIL(err, WEFT_USAGE, "rank %u needs %s, over its limit of %s", r,
                             wf_bytes_print(need, total, WF_BYTES_DECIMAL),
                             wf_bytes_print(most, limit, WF_BYTES_DECIMAL));
    }
    return WEFT_OK;
}

/* Returns the highest peak of a rank, in bytes if `bytes` is true. */
static double peak_of(const struct wf_plan *plan, bool bytes)
{
    double peak = 0;
    for (uint32_t r = 0; r < plan->metrics.n_ranks; r++)
        peak = fmax(peak, bytes ? (double)plan->bytes.total[r] : plan->metrics.peak_mem[r]);
    return peak;
}

/* Simulates a plan and fills its row. */
static enum weft_status measure(struct wf_comparison *c, const struct wf_comparison_input *in,
                                const struct wf_plan *plan, struct wf_comparison_row *row,
                                struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(plan->schedule);
    struct wf_simulation_input how = {.effort = 0.05};
    struct wf_simulation s;
    WEFT_TRY(check_bytes(plan, in->plan.bytes_limit, err));
    if (in->plan.machine != NULL)
        how.options = *in->plan.machine;
    WEFT_TRY(wf_simulation_init(&s, plan, &how, err));

    const struct weft_metrics *m = &s.sim.metrics;
    row->chunks = weft_schedule_n_chunks(plan->schedule);
    row->stages = place->n_stages;
    row->copies = place->n_pipes;
    row->makespan = m->makespan;
    row->span = m->span;
    row->bubble = m->bubble;
    row->bubble_span = m->bubble_span;
    row->messages = m->n_messages;
    row->bytes = wf_simulation_summarize(&s).bytes;
    row->peak = peak_of(plan, c->in_bytes);
    row->gap = s.bounds.makespan > 0 ? weft_gap(m->makespan, s.bounds.makespan) : NAN;
    wf_simulation_release(&s);
    return WEFT_OK;
}

/* Plans and simulates one schedule. */
static enum weft_status plan_row(struct wf_comparison *c, const struct wf_comparison_input *in,
                                 const struct wf_plan_input *one, struct wf_comparison_row *row,
                                 struct weft_error *err)
{
    struct wf_plan plan;
    WEFT_TRY(wf_plan_init(&plan, one, err));
    for (uint32_t r = 0; r < plan.bytes.n_ranks && c->n == 0; r++)
        c->in_bytes = c->in_bytes || plan.bytes.total[r] > 0;
    c->time = plan.time;
    c->memory_unit =
        wf_memory_unit(c->in_bytes || plan.memory_is_bytes, in->plan.params.memory);
    enum weft_status st = measure(c, in, &plan, row, err);
    wf_plan_release(&plan);
    return st;
}

/* Adds one schedule with one number of chunks.  If the schedule cannot be planned, it is added
 * to the omitted ones. */
static enum weft_status try_schedule(struct wf_comparison *c,
                                     const struct wf_comparison_input *in,
                                     const struct weft_generator *g, uint32_t chunks,
                                     struct weft_error *err)
{
    struct share share = {0};
    bool any_chunks = g->flags & WEFT_GEN_USES_CHUNKS;
    /* four chunks per rank, but only 2P stages */
    bool two_halves = strcmp(g->name, "bitpipe") == 0;
    struct wf_plan_input one = in->plan;
    struct wf_comparison_row row = {.generator = g};
    struct weft_error why = {0};
    share_out(&share, &in->plan,
              1.0 / (any_chunks   ? chunks
                     : two_halves ? 2
                                  : g->default_chunks));
    one.schedule = g->name;
    one.stage_costs = true; /* times are not in ticks */
    one.params.chunks = any_chunks ? chunks : 0;
    one.params.cost = &share.cost;
    one.params.memory = &share.memory;
    if (!(g->flags & WEFT_GEN_USES_GROUP))
        one.params.group = 0;
    if (!(g->flags & WEFT_GEN_USES_PIPES))
        one.params.pipes = 0;
    if (one.partition.kind != WF_PARTITION_BALANCED)
        one.bytes_limit = (struct weft_values){0};

    enum weft_status st = plan_row(c, in, &one, &row, &why);
    if (st == WEFT_OK)
        return add_row(c, &row, err);
    if (st == WEFT_USAGE || (st == WEFT_SCHEDULE && in->plan.for_torch))
        return omit(c, g, any_chunks ? chunks : g->default_chunks, why.msg, err);
    if (err != NULL)
        *err = why;
    return st;
}

/* -- all schedules -------------------------------------------------------------------------- */

static const double usual_chunks[] = {2, 4};

static enum weft_status check_input(const struct wf_comparison_input *in,
                                    struct weft_error *err)
{
    uint32_t ranks = in->plan.params.ranks, micros = in->plan.params.micros;
    if (ranks == 0 || micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "%u ranks and %u micros: both must be at least 1",
                         ranks, micros);
    if ((uint64_t)ranks * micros > WF_COMPARISON_MAX_CELLS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u ranks x %u micros are too many for a comparison (maximum product "
                         "%d); plan one schedule at a time",
                         ranks, micros, WF_COMPARISON_MAX_CELLS);
    for (size_t i = 0; i < in->chunks.n; i++) {
        double v = in->chunks.at[i];
        if (v < 1 || v > 64 || v != floor(v))
            return WEFT_FAIL(err, WEFT_USAGE, "chunks: %g is not a whole number from 1 to 64",
                             v);
    }
    return WEFT_OK;
}

static enum weft_status try_all(struct wf_comparison *c, const struct wf_comparison_input *in,
                                struct weft_error *err)
{
    struct weft_values chunks = in->chunks;
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    if (chunks.n == 0)
        chunks = (struct weft_values){usual_chunks, WEFT_LEN(usual_chunks)};
    for (size_t i = 0; i < n; i++) {
        bool any = all[i].flags & WEFT_GEN_USES_CHUNKS, one_too = all[i].default_chunks == 1;
        c->stopped =
            in->progress != NULL && !in->progress((double)i / (double)n, all[i].name, in->user);
        if (c->stopped)
            return WEFT_OK;
        if (!any || one_too)
            WEFT_TRY(try_schedule(c, in, &all[i], 1, err));
        for (size_t k = 0; any && k < chunks.n; k++)
            if (!one_too || chunks.at[k] > 1)
                WEFT_TRY(try_schedule(c, in, &all[i], (uint32_t)chunks.at[k], err));
    }
    if (c->n > 0)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE, "no schedule can be compared; %s: %s",
                     c->omitted[0].generator->name, c->omitted[0].reason);
}

/* Returns true if `a` is at least as good as `b` in every criterion and better in at least
 * one. */
static bool dominates(const struct wf_comparison_row *a, const struct wf_comparison_row *b)
{
    const double slack = 1 + 1e-12;
    bool no_worse = a->makespan <= b->makespan * slack && a->peak <= b->peak * slack &&
                    a->copies <= b->copies;
    return no_worse && (a->makespan * slack < b->makespan || a->peak * slack < b->peak ||
                        a->copies < b->copies);
}

static void mark_pareto(struct wf_comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->at[i].is_pareto = true;
        for (size_t k = 0; k < c->n; k++)
            if (dominates(&c->at[k], &c->at[i]))
                c->at[i].is_pareto = false;
    }
}

static int by_time(const void *pa, const void *pb)
{
    const struct wf_comparison_row *a = pa, *b = pb;
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan ? -1 : 1;
    return (a->peak > b->peak) - (a->peak < b->peak);
}

static int by_span(const void *pa, const void *pb)
{
    const struct wf_comparison_row *a = pa, *b = pb;
    return a->span != b->span ? (a->span < b->span ? -1 : 1) : by_time(pa, pb);
}

static int by_memory(const void *pa, const void *pb)
{
    const struct wf_comparison_row *a = pa, *b = pb;
    return a->peak != b->peak ? (a->peak < b->peak ? -1 : 1) : by_time(pa, pb);
}

static int by_name(const void *pa, const void *pb)
{
    const struct wf_comparison_row *a = pa, *b = pb;
    int order = strcmp(a->generator->name, b->generator->name);
    return order != 0 ? order : (a->chunks > b->chunks) - (a->chunks < b->chunks);
}

enum weft_status wf_comparison_init(struct wf_comparison *out,
                                    const struct wf_comparison_input *in,
                                    struct weft_error *err)
{
    static int (*const orders[])(const void *, const void *) = {
        [WF_COMPARISON_BY_TIME] = by_time,
        [WF_COMPARISON_BY_SPAN] = by_span,
        [WF_COMPARISON_BY_MEMORY] = by_memory,
        [WF_COMPARISON_BY_NAME] = by_name,
    };
    struct wf_comparison c = {.ranks = in->plan.params.ranks, .micros = in->plan.params.micros};
    WEFT_TRY(check_input(in, err));
    enum weft_status st = try_all(&c, in, err);
    if (st != WEFT_OK) {
        wf_comparison_release(&c);
        return st;
    }
    mark_pareto(&c);
    if (c.n > 0)
        qsort(c.at, c.n, sizeof *c.at, orders[in->order]);
    *out = c;
    return WEFT_OK;
}

void wf_comparison_release(struct wf_comparison *c)
{
    free(c->at);
    free(c->omitted);
    *c = (struct wf_comparison){0};
}

void wf_comparison_write_json(struct wf_json *j, const struct wf_comparison *c)
{
    wf_json_begin(j, NULL, '[');
    for (size_t i = 0; i < c->n; i++) {
        const struct wf_comparison_row *row = &c->at[i];
        wf_json_begin(j, NULL, '{');
        wf_json_string(j, "schedule", row->generator->name);
        wf_json_uint(j, "chunks", row->chunks);
        wf_json_uint(j, "stages", row->stages);
        wf_units_write_json(j, c->time, c->memory_unit);
        wf_json_number(j, "makespan", row->makespan);
        wf_json_number(j, "bubble", row->bubble);
        wf_json_number(j, "span", row->span);
        wf_json_number(j, "bubble_span", row->bubble_span);
        wf_json_number(j, "peak_mem", row->peak);
        wf_json_uint(j, "copies", row->copies);
        wf_json_uint(j, "messages", row->messages);
        wf_json_number(j, "bytes", row->bytes);
        if (!isnan(row->gap))
            wf_json_number(j, "gap", row->gap);
        wf_json_bool(j, "pareto", row->is_pareto);
        wf_json_end(j, '}');
    }
    for (size_t i = 0; i < c->n_omitted; i++) {
        wf_json_begin(j, NULL, '{');
        wf_json_string(j, "schedule", c->omitted[i].generator->name);
        wf_json_uint(j, "chunks", c->omitted[i].chunks);
        wf_json_string(j, "reason", c->omitted[i].reason);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}
