/* weft compare: compares all schedules for one size. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "config/values.h"
#include "planning/draw/scatter.h"
#include "planning/planner/comparison.h"
#include "terminal/bar.h"

struct compare_settings {
    struct wf_plan_settings plan; /* must be the first field: the shared options write to it */
    const char *bytes, *chunk_list, *sort;
    bool json;
};

#define AT(field) offsetof(struct compare_settings, field)

static const struct wf_option options[] = {
    {"ranks", 'p', WF_OPTION_COUNT, "P", "ranks of the pipeline", NULL, WF_PLAN_AT(ranks)},
    {"micros", 'm', WF_OPTION_COUNT, "M", "micro-batches per step", NULL, WF_PLAN_AT(micros)},
    {"chunks", 0, WF_OPTION_TEXT, "2:4",
     "numbers of chunks to try, if the schedule supports several", NULL, AT(chunk_list)},
    {"cost", 'c', WF_OPTION_TEXT, "F=1,I=1,W=1",
     "times of 1/P of the model; also B, FB, C (a hop)", NULL, WF_PLAN_AT(cost)},
    {"mem", 0, WF_OPTION_TEXT, "F=1,I=0,W=-1", "change of memory, for 1/P of the model", NULL,
     WF_PLAN_AT(mem)},
    {"mem-limit", 0, WF_OPTION_TEXT, "X",
     "omit schedules that need more memory than this on "
     "a rank",
     NULL, WF_PLAN_AT(mem_limit)},
    {"bytes", 0, WF_OPTION_TEXT, "N", "bytes of a message between stages", NULL, AT(bytes)},
    {"sort", 0, WF_OPTION_CHOICE, "BY", "sort order (time)", "time|span|memory|name", AT(sort)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print JSON", NULL, AT(json)},
    {"output", 'o', WF_OPTION_TEXT, "FILE", "write to FILE; .svg plots time against memory",
     NULL, WF_PLAN_AT(output)},
};

static void print_text(FILE *out, const struct wf_comparison *c,
                       const struct compare_settings *in, bool bytes)
{
    fprintf(
        out,
        "%u ranks, %u micros, every rank has the same share of the model; * no other schedule "
        "is better in time, memory and copies at once\n\n"
        "  %-17s %6s %10s %8s %10s %8s %8s %6s %8s %7s%s\n",
        in->plan.ranks, in->plan.micros, "schedule", "chunks", "makespan", "bubble", "span",
        "bubble", "memory", "copies", "messages", "gap", bytes ? "      bytes" : "");
    for (size_t i = 0; i < c->n; i++) {
        const struct wf_comparison_row *row = &c->at[i];
        fprintf(out, "%c %-17s %6u %10.6g %7.1f%% %10.6g %7.1f%% %8.4g %6u %8zu %6.1f%%",
                row->is_pareto ? '*' : ' ', row->generator->name, row->chunks, row->makespan,
                100 * row->bubble, row->span, 100 * row->bubble_span, row->peak, row->copies,
                row->messages, 100 * row->gap);
        if (bytes)
            fprintf(out, " %10.4g", row->bytes);
        fputc('\n', out);
    }
}

static enum weft_status plot(FILE *out, const struct wf_comparison *c,
                             const struct compare_settings *in, struct weft_error *err)
{
    enum { NAME = 48 };
    struct wf_point *points = malloc(sizeof *points * (c->n + 1));
    char(*names)[NAME] = malloc(sizeof *names * (c->n + 1));
    char title[80];
    snprintf(title, sizeof title, "%u ranks, %u micros", in->plan.ranks, in->plan.micros);
    bool ok = points != NULL && names != NULL;
    for (size_t i = 0; ok && i < c->n; i++) {
        const struct wf_comparison_row *row = &c->at[i];
        bool chunked = row->generator->flags & WEFT_GEN_USES_CHUNKS;
        if (chunked)
            snprintf(names[i], NAME, "%s x%u", row->generator->name, row->chunks);
        else
            snprintf(names[i], NAME, "%s", row->generator->name);
        points[i] = (struct wf_point){row->peak, row->makespan, names[i], row->is_pareto};
    }
    ok = ok && wf_draw_scatter(out, points, c->n, title, "peak memory of a rank", "makespan");
    free(points);
    free(names);
    return ok ? WEFT_OK : WEFT_FAIL(err, WEFT_NOMEM, "no memory to plot");
}

static enum weft_status print_all(const struct wf_comparison *c,
                                  const struct compare_settings *in, bool bytes,
                                  struct weft_error *err)
{
    const char *path = in->plan.output;
    struct wf_output sink;
    WEFT_TRY(wf_output_open(&sink, path, err));
    enum weft_status st = WEFT_OK;
    if (!in->json && path != NULL && wf_path_ends_in(path, ".svg")) {
        st = plot(sink.out, c, in, err);
    } else if (in->json || (path != NULL && wf_path_ends_in(path, ".json"))) {
        wf_comparison_write_json(&(struct wf_json){.out = sink.out}, c);
        fputc('\n', sink.out);
    } else {
        print_text(sink.out, c, in, bytes);
    }
    return wf_output_close(&sink, st, err);
}

static void show_progress(double share, const char *name, void *user)
{
    struct wf_bar *bar = user;
    if (wf_bar_is_due(bar))
        wf_bar_draw(bar, share, name, NULL, 0);
}

static enum wf_comparison_order read_order(const char *text)
{
    static const char *const names[] = {"time", "span", "memory", "name"};
    size_t i = 0;
    while (text != NULL && strcmp(text, names[i]) != 0)
        i++;
    return (enum wf_comparison_order)i;
}

static enum weft_status compare(const struct compare_settings *in,
                                struct wf_comparison_input *input, struct weft_cost *cost,
                                struct weft_memory_cost *memory, struct weft_error *err)
{
    struct wf_comparison c;
    WEFT_TRY(wf_option_number(in->bytes, "--bytes", 1e18, &input->message_bytes, err));
    WEFT_TRY(wf_plan_parse_costs(&in->plan, cost, memory, err));
    if (in->chunk_list != NULL)
        WEFT_TRY(wf_values_parse(in->chunk_list, "--chunks", &input->chunks, err));

    struct wf_bar bar = wf_bar_make(stderr); /* comparing large schedules takes long */
    input->progress = show_progress;
    input->user = &bar;
    enum weft_status st = wf_comparison_init(&c, input, err);
    wf_bar_clear(&bar);
    if (st != WEFT_OK)
        return st;
    st = print_all(&c, in, input->message_bytes > 0, err);
    wf_comparison_release(&c);
    return st;
}

static enum weft_status run_compare(int argc, char **argv, struct weft_error *err)
{
    struct compare_settings in = {0};
    struct weft_cost cost = {0};
    struct weft_memory_cost memory = {0};
    const char *none = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_compare, argc, argv, &in, &none, err));
    if (!in.json)
        WEFT_TRY(wf_output_check(in.plan.output, ".svg .json .txt", err));
    if (in.plan.ranks == 0 || in.plan.micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "compare needs --ranks P and --micros M");

    struct wf_comparison_input input = {.ranks = in.plan.ranks,
                                        .micros = in.plan.micros,
                                        .cost = &cost,
                                        .memory = &memory,
                                        .order = read_order(in.sort)};
    enum weft_status st = compare(&in, &input, &cost, &memory, err);
    wf_values_release(&input.chunks);
    wf_costs_release(&cost, &memory);
    return st;
}

const struct wf_command wf_command_compare = {
    .name = "compare",
    .summary = "compare all schedules for one size",
    .text =
        "Makes every schedule that supports these ranks and micros, and reports the time, bubble,\n"
        "memory, copies of the weights and messages of each. All have the same ranks, model and\n"
        "batch: costs and memory are those of 1/P of the model, and the stages of a schedule\n"
        "with more chunks cost proportionally less. Schedules that search minimize the makespan. A\n"
        "star marks a schedule if no other is better in time, memory and copies at once.\n",
    .examples = "  weft compare --ranks 8 --micros 24 --cost F=10,I=12,W=8,C=1\n"
                "  weft compare -p 8 -m 32 --mem-limit 6 --sort memory\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_compare,
};
