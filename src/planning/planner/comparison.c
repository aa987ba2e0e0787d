/* Generates, times and compares all schedules for given numbers of ranks and micros. */
#include "planning/planner/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "weft/bound.h"
#include "weft/timing.h"

/* -- costs ---------------------------------------------------------------------------------- */

/* The costs of one stage of a schedule.  They are a fraction of the costs of 1/P of the
 * model, where P is the number of ranks. */
struct share {
    double store[8];
    struct weft_cost cost;
    struct weft_memory_cost memory;
};

/* Scales the first number of a list.  Returns a list of this one number, which is stored in
 * *store. */
static struct weft_values scale(struct weft_values v, double by, double otherwise,
                                double *store)
{
    *store = weft_values_get(v, 0, otherwise) * by;
    return (struct weft_values){store, 1};
}

static void share_out(struct share *out, const struct wf_comparison_input *in, double by)
{
    struct weft_stage_cost t = weft_cost_stage(in->cost, 0);
    out->cost.f = scale(in->cost->f, by, 1, &out->store[0]);
    out->cost.i = scale(in->cost->i, by, 1, &out->store[1]);
    out->cost.w = scale(in->cost->w, by, 1, &out->store[2]);
    out->cost.b = scale(in->cost->b, by, t.i + t.w, &out->store[3]);
    out->cost.fb = scale(in->cost->fb, by, t.f + t.b, &out->store[4]);
    out->cost.hop = in->cost->hop;
    struct weft_stage_memory d = weft_memory_cost_stage(in->memory, 0);
    out->memory.f = scale(in->memory->f, by, d.f, &out->store[5]);
    out->memory.i = scale(in->memory->i, by, d.i, &out->store[6]);
    out->memory.w = scale(in->memory->w, by, d.w, &out->store[7]);
    out->memory.limit = in->memory->limit;
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

/* Times a schedule and adds it to the comparison unless it exceeds the memory limit. */
static enum weft_status measure(struct wf_comparison *c, const struct wf_comparison_input *in,
                                const struct weft_generator *g, const struct weft_schedule *s,
                                const struct share *share, struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    struct weft_metrics m;
    struct weft_bounds bounds;
    WEFT_TRY(weft_metrics_init(&m, s, &share->cost, &share->memory, err));
    struct wf_comparison_row row = {.generator = g,
                                    .chunks = weft_schedule_n_chunks(s),
                                    .stages = p->n_stages,
                                    .copies = p->n_pipes,
                                    .makespan = m.makespan,
                                    .span = m.span,
                                    .bubble = m.bubble,
                                    .bubble_span = m.bubble_span,
                                    .messages = m.n_messages,
                                    .bytes = in->message_bytes * (double)m.n_messages};
    bool fits = true;
    for (uint32_t r = 0; r < m.n_ranks; r++) {
        double limit = weft_values_get(in->memory->limit, r, HUGE_VAL);
        row.peak = fmax(row.peak, m.peak_mem[r]);
        fits = fits && weft_memory_fits(m.peak_mem[r], limit);
    }
    weft_metrics_release(&m);

    WEFT_TRY(weft_bounds_of(s, &share->cost, &share->memory, 0.05, &bounds, err));
    row.gap = weft_gap(row.makespan, bounds.makespan);
    return fits ? add_row(c, &row, err) : WEFT_OK;
}

/* Adds one schedule with one number of chunks.  It is not an error if the schedule does not
 * support the sizes. */
static enum weft_status try_schedule(struct wf_comparison *c,
                                     const struct wf_comparison_input *in,
                                     const struct weft_generator *g, uint32_t chunks,
                                     struct weft_error *err)
{
    struct share share;
    bool any_chunks = g->flags & WEFT_GEN_USES_CHUNKS;
    /* four chunks per rank, but only 2P stages */
    bool two_halves = strcmp(g->name, "bitpipe") == 0;
    share_out(&share, in, 1.0 / (any_chunks ? chunks : two_halves ? 2 : g->default_chunks));
    struct weft_gen_params params = {.ranks = in->ranks,
                                     .micros = in->micros,
                                     .chunks = any_chunks ? chunks : 0,
                                     .cost = &share.cost,
                                     .memory = &share.memory,
                                     .minimize = WEFT_MINIMIZE_MAKESPAN};
    struct weft_schedule *s = NULL;
    struct weft_error why;
    enum weft_status st = weft_schedule_generate(g->name, &params, &s, &why);
    if (st == WEFT_USAGE)
        return WEFT_OK;
    if (st != WEFT_OK) {
        if (err != NULL)
            *err = why;
        return st;
    }
    st = measure(c, in, g, s, &share, err);
    weft_schedule_free(s);
    return st;
}

/* -- all schedules -------------------------------------------------------------------------- */

static const double usual_chunks[] = {2, 4};

static enum weft_status check_input(const struct wf_comparison_input *in,
                                    struct weft_error *err)
{
    if (in->ranks == 0 || in->micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "%u ranks and %u micros: both must be at least 1",
                         in->ranks, in->micros);
    if ((uint64_t)in->ranks * in->micros > WF_COMPARISON_MAX_CELLS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u ranks x %u micros are too many to compare all schedules (maximum "
                         "%d); a single one can have any size",
                         in->ranks, in->micros, WF_COMPARISON_MAX_CELLS);
    for (size_t i = 0; i < in->chunks.n; i++) {
        double v = in->chunks.at[i];
        if (v < 1 || v > 64 || v != floor(v))
            return WEFT_FAIL(err, WEFT_USAGE, "chunks: %g is not a whole number from 1 to 64",
                             v);
    }
    return weft_cost_check(in->cost, in->memory, in->ranks, 1, in->micros, err);
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
        if (in->progress != NULL)
            in->progress((double)i / (double)n, all[i].name, in->user);
        if (!any || one_too)
            WEFT_TRY(try_schedule(c, in, &all[i], 1, err));
        for (size_t k = 0; any && k < chunks.n; k++)
            if (!one_too || chunks.at[k] > 1)
                WEFT_TRY(try_schedule(c, in, &all[i], (uint32_t)chunks.at[k], err));
    }
    return c->n > 0 ? WEFT_OK
                    : WEFT_FAIL(err, WEFT_USAGE, "no schedule fits the memory limit; raise it");
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
    struct wf_comparison c = {0};
    WEFT_TRY(check_input(in, err));
    enum weft_status st = try_all(&c, in, err);
    if (st != WEFT_OK) {
        wf_comparison_release(&c);
        return st;
    }
    mark_pareto(&c);
    qsort(c.at, c.n, sizeof *c.at, orders[in->order]);
    *out = c;
    return WEFT_OK;
}

void wf_comparison_release(struct wf_comparison *c)
{
    free(c->at);
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
        wf_json_number(j, "makespan", row->makespan);
        wf_json_number(j, "bubble", row->bubble);
        wf_json_number(j, "span", row->span);
        wf_json_number(j, "bubble_span", row->bubble_span);
        wf_json_number(j, "peak_mem", row->peak);
        wf_json_uint(j, "copies", row->copies);
        wf_json_uint(j, "messages", row->messages);
        wf_json_number(j, "bytes", row->bytes);
        wf_json_number(j, "gap", row->gap);
        wf_json_bool(j, "pareto", row->is_pareto);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}
