/* All schedules that fit, side by side: the same ranks, the same model, the same batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "config/values.h"
#include "planning/draw/scatter.h"
#include "weft/bound.h"
#include "weft/verify.h"

struct compare_settings {
    struct wf_plan_settings plan; /* first: its options are shared */
    const char *bytes, *chunk_list, *sort;
    bool json;
};

#define AT(field) offsetof(struct compare_settings, field)

static const struct wf_option options[] = {
    {"ranks", 'p', WF_OPTION_COUNT, "P", "workers of the pipeline", NULL, WF_PLAN_AT(ranks)},
    {"micros", 'm', WF_OPTION_COUNT, "M", "micro-batches of a step", NULL, WF_PLAN_AT(micros)},
    {"chunks", 0, WF_OPTION_TEXT, "2:4", "which numbers of chunks to try where any can be had",
     NULL, AT(chunk_list)},
    {"cost", 'c', WF_OPTION_TEXT, "F=1,I=1,W=1",
     "times of a P-th of the model; also B, FB, C (a hop)", NULL, WF_PLAN_AT(cost)},
    {"mem", 0, WF_OPTION_TEXT, "F=1,I=0,W=-1", "change of memory, of a P-th of the model", NULL,
     WF_PLAN_AT(mem)},
    {"mem-limit", 0, WF_OPTION_TEXT, "X", "leave out what needs more on a rank", NULL,
     WF_PLAN_AT(mem_limit)},
    {"bytes", 0, WF_OPTION_TEXT, "N", "of a message between stages", NULL, AT(bytes)},
    {"sort", 0, WF_OPTION_CHOICE, "BY", "the first column (time)", "time|span|memory|name",
     AT(sort)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "figures for programs", NULL, AT(json)},
    {"output", 'o', WF_OPTION_TEXT, "FILE", "write there; .svg plots time against memory", NULL,
     WF_PLAN_AT(output)},
};

/* One schedule's figures. */
struct contender {
    const struct weft_generator *generator;
    uint32_t chunks, stages, copies;
    double makespan, span, bubble, bubble_span, peak;
    size_t messages;
    double gap; /* at most so much above the optimum for its placement and memory */
    bool best;  /* nothing else is faster with no more memory and weights */
};

struct contest {
    uint32_t ranks, micros;
    struct weft_cost cost;          /* of a P-th of the model; owned lists */
    struct weft_memory_cost memory; /* likewise */
    double bytes;
    size_t n;
    struct contender *at; /* owned */
    size_t cap;
};

/* A list of one number, scaled; the caller's storage holds it. */
static struct weft_values scaled(struct weft_values v, double by, double otherwise,
                                 double *store)
{
    *store = weft_values_get(v, 0, otherwise) * by;
    return (struct weft_values){store, 1};
}

/* The stages of a schedule share the model equally, so each costs and keeps P / S of what a P-th
 * of the model does. */
struct share {
    double store[8];
    struct weft_cost cost;
    struct weft_memory_cost memory;
};

static void share_out(struct share *out, const struct contest *c, double by)
{
    struct weft_stage_cost t = weft_cost_stage(&c->cost, 0);
    out->cost.f = scaled(c->cost.f, by, 1, &out->store[0]);
    out->cost.i = scaled(c->cost.i, by, 1, &out->store[1]);
    out->cost.w = scaled(c->cost.w, by, 1, &out->store[2]);
    out->cost.b = scaled(c->cost.b, by, t.i + t.w, &out->store[3]);
    out->cost.fb = scaled(c->cost.fb, by, t.f + t.b, &out->store[4]);
    out->cost.hop = c->cost.hop;
    struct weft_stage_memory d = weft_memory_cost_stage(&c->memory, 0);
    out->memory.f = scaled(c->memory.f, by, d.f, &out->store[5]);
    out->memory.i = scaled(c->memory.i, by, d.i, &out->store[6]);
    out->memory.w = scaled(c->memory.w, by, d.w, &out->store[7]);
    out->memory.limit = c->memory.limit;
}

static enum weft_status add(struct contest *c, const struct contender *one,
                            struct weft_error *err)
{
    if (c->n == c->cap) {
        size_t cap = c->cap == 0 ? 32 : 2 * c->cap;
        struct contender *more = realloc(c->at, cap * sizeof *more);
        if (more == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu schedules", cap);
        c->at = more;
        c->cap = cap;
    }
    c->at[c->n++] = *one;
    return WEFT_OK;
}

static enum weft_status measure(struct contest *c, const struct weft_generator *g,
                                const struct weft_schedule *s, const struct share *share,
                                struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    struct weft_metrics m;
    WEFT_TRY(weft_metrics_init(&m, s, &share->cost, &share->memory, err));
    struct contender one = {.generator = g,
                            .chunks = weft_schedule_n_chunks(s),
                            .stages = p->n_stages,
                            .copies = p->n_pipes,
                            .makespan = m.makespan,
                            .span = m.span,
                            .bubble = m.bubble,
                            .bubble_span = m.bubble_span,
                            .messages = m.n_messages};
    struct weft_bounds bounds;
    enum weft_status st = weft_bounds_of(s, &share->cost, &share->memory, 0.05, &bounds, err);
    if (st != WEFT_OK) {
        weft_metrics_release(&m);
        return st;
    }
    one.gap = weft_gap(m.makespan, bounds.makespan);
    bool fits = true;
    for (uint32_t r = 0; r < m.n_ranks; r++) {
        one.peak = fmax(one.peak, m.peak_mem[r]);
        fits =
            fits && (c->memory.limit.n == 0 ||
                     weft_memory_fits(m.peak_mem[r], weft_values_get(c->memory.limit, r, 0)));
    }
    weft_metrics_release(&m);
    return fits ? add(c, &one, err) : WEFT_OK;
}

/* One schedule with one number of chunks; a size that it cannot do is no error here. */
static enum weft_status enter(struct contest *c, const struct weft_generator *g,
                              uint32_t chunks, struct weft_error *err)
{
    struct share share;
    bool two_halves = strcmp(g->name, "bitpipe") == 0; /* four chunks, but of 2P stages */
    double by = 1.0 / (g->flags & WEFT_GEN_USES_CHUNKS ? chunks
                       : two_halves                    ? 2
                                                       : g->default_chunks);
    share_out(&share, c, by);
    struct weft_gen_params params = {.ranks = c->ranks,
                                     .micros = c->micros,
                                     .chunks = g->flags & WEFT_GEN_USES_CHUNKS ? chunks : 0,
                                     .cost = &share.cost,
                                     .memory = &share.memory,
                                     .minimize = WEFT_MINIMIZE_MAKESPAN};
    struct weft_schedule *s = NULL;
    struct weft_error why;
    enum weft_status st = weft_schedule_generate(g->name, &params, &s, &why);
    if (st == WEFT_USAGE)
        return WEFT_OK;
    if (st != WEFT_OK) {
        *err = why;
        return st;
    }
    st = measure(c, g, s, &share, err);
    weft_schedule_free(s);
    return st;
}

/* Faster or equal in all that counts, and better in something. */
static bool beats(const struct contender *a, const struct contender *b)
{
    const double slack = 1 + 1e-12;
    bool no_worse = a->makespan <= b->makespan * slack && a->peak <= b->peak * slack &&
                    a->copies <= b->copies;
    return no_worse && (a->makespan * slack < b->makespan || a->peak * slack < b->peak ||
                        a->copies < b->copies);
}

static void mark_front(struct contest *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->at[i].best = true;
        for (size_t k = 0; k < c->n; k++)
            if (beats(&c->at[k], &c->at[i]))
                c->at[i].best = false;
    }
}

static int by_time(const void *pa, const void *pb)
{
    const struct contender *a = pa, *b = pb;
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan ? -1 : 1;
    return (a->peak > b->peak) - (a->peak < b->peak);
}

static int by_span(const void *pa, const void *pb)
{
    const struct contender *a = pa, *b = pb;
    return a->span != b->span ? (a->span < b->span ? -1 : 1) : by_time(pa, pb);
}

static int by_memory(const void *pa, const void *pb)
{
    const struct contender *a = pa, *b = pb;
    return a->peak != b->peak ? (a->peak < b->peak ? -1 : 1) : by_time(pa, pb);
}

static int by_name(const void *pa, const void *pb)
{
    const struct contender *a = pa, *b = pb;
    int order = strcmp(a->generator->name, b->generator->name);
    return order != 0 ? order : (a->chunks > b->chunks) - (a->chunks < b->chunks);
}

static void sort_by(struct contest *c, const char *what)
{
    int (*order)(const void *, const void *) = by_time;
    if (what != NULL && strcmp(what, "span") == 0)
        order = by_span;
    else if (what != NULL && strcmp(what, "memory") == 0)
        order = by_memory;
    else if (what != NULL && strcmp(what, "name") == 0)
        order = by_name;
    qsort(c->at, c->n, sizeof *c->at, order);
}

static void print_json(FILE *out, const struct contest *c)
{
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '[');
    for (size_t i = 0; i < c->n; i++) {
        const struct contender *one = &c->at[i];
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "schedule", one->generator->name);
        wf_json_uint(&j, "chunks", one->chunks);
        wf_json_uint(&j, "stages", one->stages);
        wf_json_number(&j, "makespan", one->makespan);
        wf_json_number(&j, "bubble", one->bubble);
        wf_json_number(&j, "span", one->span);
        wf_json_number(&j, "bubble_span", one->bubble_span);
        wf_json_number(&j, "peak_mem", one->peak);
        wf_json_uint(&j, "copies", one->copies);
        wf_json_uint(&j, "messages", one->messages);
        wf_json_number(&j, "bytes", c->bytes * (double)one->messages);
        wf_json_number(&j, "gap", one->gap);
        wf_json_bool(&j, "pareto", one->best);
        wf_json_end(&j, '}');
    }
    wf_json_end(&j, ']');
    fputc('\n', out);
}

static void print_text(FILE *out, const struct contest *c)
{
    fprintf(
        out,
        "%u ranks, %u micros, every rank the same share of the model; * nothing is faster with "
        "no more memory\n\n"
        "  %-17s %6s %10s %8s %10s %8s %8s %6s %8s %7s%s\n",
        c->ranks, c->micros, "schedule", "chunks", "makespan", "bubble", "span", "bubble",
        "memory", "copies", "messages", "gap", c->bytes > 0 ? "      bytes" : "");
    for (size_t i = 0; i < c->n; i++) {
        const struct contender *one = &c->at[i];
        fprintf(out, "%c %-17s %6u %10.6g %7.1f%% %10.6g %7.1f%% %8.4g %6u %8zu %6.1f%%",
                one->best ? '*' : ' ', one->generator->name, one->chunks, one->makespan,
                100 * one->bubble, one->span, 100 * one->bubble_span, one->peak, one->copies,
                one->messages, 100 * one->gap);
        if (c->bytes > 0)
            fprintf(out, " %10.4g", c->bytes * (double)one->messages);
        fputc('\n', out);
    }
}

static enum weft_status plot(FILE *out, const struct contest *c, struct weft_error *err)
{
    enum { NAME = 48 };
    struct wf_point *points = malloc(sizeof *points * (c->n + 1));
    char(*names)[NAME] = malloc(sizeof *names * (c->n + 1));
    char title[80];
    snprintf(title, sizeof title, "%u ranks, %u micros", c->ranks, c->micros);
    bool ok = points != NULL && names != NULL;
    for (size_t i = 0; ok && i < c->n; i++) {
        const struct contender *one = &c->at[i];
        bool chunked = one->generator->flags & WEFT_GEN_USES_CHUNKS;
        if (chunked)
            snprintf(names[i], NAME, "%s x%u", one->generator->name, one->chunks);
        else
            snprintf(names[i], NAME, "%s", one->generator->name);
        points[i] = (struct wf_point){one->peak, one->makespan, names[i], one->best};
    }
    ok = ok && wf_draw_scatter(out, points, c->n, title, "peak memory of a rank", "makespan");
    free(points);
    free(names);
    return ok ? WEFT_OK : WEFT_FAIL(err, WEFT_NOMEM, "no memory to plot");
}

static enum weft_status print_all(const struct contest *c, const struct compare_settings *in,
                                  struct weft_error *err)
{
    const char *path = in->plan.output;
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, path, err));
    enum weft_status st = WEFT_OK;
    if (!in->json && path != NULL && wf_path_ends_in(path, ".svg"))
        st = plot(sink.out, c, err);
    else if (in->json || (path != NULL && wf_path_ends_in(path, ".json")))
        print_json(sink.out, c);
    else
        print_text(sink.out, c);
    return wf_output_close(&sink, st, err);
}

static void contest_release(struct contest *c)
{
    wf_costs_release(&c->cost, &c->memory);
    free(c->at);
}

enum { MOST_CELLS = 500000 }; /* ranks x micros: some minutes */

static enum weft_status hold_contest(struct contest *c, const struct compare_settings *in,
                                     struct weft_error *err)
{
    struct weft_values chunks = {0};
    static const double usual[] = {2, 4};
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    WEFT_TRY(wf_plan_parse_costs(&in->plan, &c->cost, &c->memory, err));
    WEFT_TRY(weft_cost_check(&c->cost, &c->memory, c->ranks, 1, c->micros, err));
    if (in->chunk_list != NULL)
        WEFT_TRY(wf_values_parse(in->chunk_list, "--chunks", &chunks, err));
    const double *list = chunks.n > 0 ? chunks.at : usual;
    size_t n_list = chunks.n > 0 ? chunks.n : WEFT_LEN(usual);
    enum weft_status st = WEFT_OK;
    for (size_t k = 0; st == WEFT_OK && k < n_list; k++)
        if (list[k] < 1 || list[k] > 64 || list[k] != floor(list[k]))
            st = WEFT_FAIL(err, WEFT_USAGE, "--chunks: %g is no number from 1 to 64", list[k]);
    struct wf_bar bar = wf_bar_make(stderr); /* searches of large sizes take long */
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        if (wf_bar_is_due(&bar))
            wf_bar_draw(&bar, (double)i / (double)n, all[i].name, NULL, 0);
        bool any = all[i].flags & WEFT_GEN_USES_CHUNKS, one_too = all[i].default_chunks == 1;
        if (!any || one_too)
            st = enter(c, &all[i], 1, err);
        for (size_t k = 0; any && st == WEFT_OK && k < n_list; k++)
            if (!one_too || list[k] > 1)
                st = enter(c, &all[i], (uint32_t)list[k], err);
    }
    wf_bar_clear(&bar);
    wf_values_release(&chunks);
    return st;
}

static enum weft_status run_compare(int argc, char **argv, struct weft_error *err)
{
    struct compare_settings in = {0};
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_compare, argc, argv, &in, &none, err));
    if (!in.json)
        WEFT_TRY(wf_output_check(in.plan.output, ".svg .json .txt", err));
    if (in.plan.ranks == 0 || in.plan.micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "compare needs --ranks P and --micros M");
    if ((uint64_t)in.plan.ranks * in.plan.micros > MOST_CELLS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%u ranks x %u micros: compare makes all schedules, and takes at most "
                         "%d; weft plan makes one of any size",
                         in.plan.ranks, in.plan.micros, MOST_CELLS);
    struct contest c = {.ranks = in.plan.ranks, .micros = in.plan.micros};
    struct weft_values bytes = {0};
    enum weft_status st = WEFT_OK;
    if (in.bytes != NULL)
        st = wf_values_parse(in.bytes, "--bytes", &bytes, err);
    if (st == WEFT_OK && bytes.n > 0 &&
        !(bytes.n == 1 && bytes.at[0] >= 0 && bytes.at[0] <= 1e18))
        st = WEFT_FAIL(err, WEFT_USAGE, "--bytes takes one number, 0 to 1e18");
    c.bytes = weft_values_get(bytes, 0, 0);
    wf_values_release(&bytes);
    if (st == WEFT_OK)
        st = hold_contest(&c, &in, err);
    if (st == WEFT_OK && c.n == 0)
        st = WEFT_FAIL(err, WEFT_USAGE, "no schedule fits this --mem-limit: raise it");
    if (st == WEFT_OK) {
        mark_front(&c);
        sort_by(&c, in.sort);
        st = print_all(&c, &in, err);
    }
    contest_release(&c);
    return st;
}

const struct wf_command wf_command_compare = {
    .name = "compare",
    .summary = "all schedules for one size, side by side",
    .text =
        "Makes every schedule that can run with these ranks and micros, and shows time, bubbles,\n"
        "memory, copies of the weights and messages of each. All get the same ranks, the same\n"
        "model and the same batch: costs and memory are those of a P-th of the model, and the\n"
        "stages of a schedule with more chunks cost accordingly less. Those that search look\n"
        "for the least makespan. A star marks what nothing beats in time, memory and copies at\n"
        "once.\n",
    .examples = "  weft compare --ranks 8 --micros 24 --cost F=10,I=12,W=8,C=1\n"
                "  weft compare -p 8 -m 32 --mem-limit 6 --sort memory\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_compare,
};
