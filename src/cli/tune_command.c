/* Prints the commands that reproduce the results of weft tune. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan_options.h"
#include "cli/tune.h"
#include "training/session/stop.h"

/* The options of weft simulate that describe a result. */
static const struct wf_option simulate_options[] = {WF_OPTIONS_SCHEDULE, WF_OPTIONS_COST,
                                                    WF_OPTION_MINIMIZE, WF_OPTIONS_MODEL,
                                                    WF_OPTIONS_CLUSTER};

/* Appends "weft simulate ...".  An order that was found by tuning comes from the file that is
 * written or, through a pipe, from the same search.  Appends nothing if a time limit or an
 * interrupt ends the search: it may then find another order. */
static void add_simulation(struct wf_text *out, const struct wf_tune_settings *s,
                           struct wf_plan_settings *plan, bool found, struct wf_form form)
{
    const char *path = s->plan.output;
    bool written = form.kind == WF_FORM_CSV && path != NULL && strcmp(path, "-") != 0;
    bool repeatable = s->seconds == NULL && wf_stop_signal() == 0 &&
                      (s->iterations != 0 || s->global_batch != 0);
    struct wf_tune_settings again = *s;
    if (found && !written && !repeatable)
        return;
    again.plan.json = false;
    again.plan.format = "csv";
    again.plan.output = again.plan.color = NULL;
    again.plan.width = 0;
    if (found && !written) {
        wf_text_adds(out, "weft tune");
        wf_options_print(wf_command_tune.options, &again, out);
        wf_text_adds(out, " | ");
    }
    if (found) {
        plan->schedule = written ? path : "-";
        plan->ranks = plan->micros = plan->chunks = 0;
    }
    wf_text_adds(out, "weft simulate");
    wf_options_print((struct wf_option_list){simulate_options, WEFT_LEN(simulate_options)},
                     plan, out);
}

void wf_tune_print_command(struct wf_text *out, const struct wf_tune_settings *s,
                           struct wf_form form)
{
    struct wf_plan_settings plan = s->plan;
    plan.json = false;
    plan.format = plan.output = plan.color = plan.minimize = plan.bytes_limit = NULL;
    plan.width = 0;
    add_simulation(out, s, &plan, true, form);
}

/* -- layouts -------------------------------------------------------------------------------- */

/* The texts of the options that describe a layout. */
struct layout_texts {
    struct wf_text layers, items[3], hop, cluster, bytes, mem, limit;
};

static void add_number(struct wf_text *out, const char *before, double value, const char *after)
{
    char number[WF_NUMBER_CHARS];
    wf_number_print(value, number);
    wf_text_addf(out, "%s%s%s", before, number, after);
}

static void add_list(struct wf_text *out, const char *before, struct weft_values v)
{
    for (size_t i = 0; i < v.n; i++)
        add_number(out, i == 0 ? before : ":", v.at[i], "");
}

/* Appends the costs of an item for a micro-batch of several rows.  Appends nothing for an item
 * without costs. */
static void add_item(struct wf_text *out, const struct weft_item *item, double rows,
                     const char *unit)
{
    bool bytes = item->state_bytes > 0 || item->act_bytes > 0;
    if (item->f == 0 && item->i == 0 && item->w == 0 && !bytes)
        return;
    add_number(out, "F=", item->f * rows, unit);
    add_number(out, ",I=", item->i * rows, unit);
    add_number(out, ",W=", item->w * rows, unit);
    if (bytes) {
        add_number(out, ",bytes=", (double)item->state_bytes, "");
        add_number(out, ",act=", (double)item->act_bytes * rows, "");
    }
}

/* Appends a link, with the usual units if they give the same numbers. */
static void add_link(struct wf_text *out, const char *name, struct weft_link link)
{
    double rate = link.bytes_per_second / 1e9, latency = link.latency_seconds / 1e-6;
    bool giga = rate * 1e9 == link.bytes_per_second;
    bool micro = latency * 1e-6 == link.latency_seconds;
    add_number(out, name, giga ? rate : link.bytes_per_second, giga ? "GB/s" : "B/s");
    add_number(out, ",", micro ? latency : link.latency_seconds, micro ? "us" : "s");
}

static void fill_texts(struct layout_texts *t, const struct wf_tune_settings *s,
                       const struct wf_plan_request *request, const struct weft_layout *best)
{
    const struct wf_plan_input *in = &request->in;
    const char *unit = request->timed ? wf_plan_time_unit(in).name : "";
    const struct weft_item *items[] = {&in->layer, &in->embedding, &in->head};
    for (uint32_t i = 0; i < best->partition.n_stages; i++)
        wf_text_addf(&t->layers, "%s%u", i > 0 ? "," : "",
                     best->partition.at[i].end_layer - best->partition.at[i].first_layer);
    for (int i = 0; i < 3 && s->plan.model == NULL; i++)
        add_item(&t->items[i], items[i], best->rows, unit);
    if (request->cost.hop > 0)
        add_number(&t->hop, "C=", request->cost.hop, unit);
    if (best->cluster.nodes > 0) {
        wf_text_addf(&t->cluster, "node:%u rank:%u", best->cluster.nodes,
                     best->cluster.ranks_per_node);
        if (best->cluster.intra.bytes_per_second > 0)
            add_link(&t->cluster, " intra:", best->cluster.intra);
        if (best->cluster.inter.bytes_per_second > 0)
            add_link(&t->cluster, " inter:", best->cluster.inter);
        add_number(&t->bytes, "", best->message_bytes, "");
    }
    add_list(&t->mem, "F=", best->memory.f);
    add_list(&t->mem, ",I=", best->memory.i);
    add_list(&t->mem, ",W=", best->memory.w);
    add_list(&t->limit, "", best->memory.limit);
}

void wf_layouts_print_command(struct wf_text *out, const struct wf_tune_settings *s,
                              const struct wf_plan_request *request,
                              const struct weft_layout *best, struct wf_form form)
{
    const struct weft_generator *g = weft_generator_find(best->schedule);
    bool searches = g != NULL && (g->flags & WEFT_GEN_USES_COST);
    struct layout_texts t = {0};
    fill_texts(&t, s, request, best);
    struct wf_plan_settings plan = {
        .schedule = best->schedule,
        .ranks = best->ranks,
        .micros = best->micros,
        .chunks = g != NULL && (g->flags & WEFT_GEN_USES_CHUNKS) ? best->chunks : 0,
        .layers_per_stage = t.layers.at,
        .model = s->plan.model,
        .rows = s->plan.model != NULL ? best->rows : 0,
        .seq = s->plan.seq,
        .recompute = s->plan.recompute,
        .tflops = s->plan.tflops,
        .layer_cost = t.items[0].at,
        .embedding_cost = t.items[1].at,
        .head_cost = t.items[2].at,
        .cost = t.hop.at,
        .cluster = t.cluster.at,
        .bytes = t.bytes.at,
        .unit = s->plan.unit,
        .mem = searches ? t.mem.at : NULL,
        .mem_limit = searches ? t.limit.at : NULL,
        .minimize =
            searches && wf_tune_minimize(s) == WEFT_MINIMIZE_MAKESPAN ? "makespan" : NULL,
    };
    add_simulation(out, s, &plan, g == NULL, form);

    struct wf_text *all[] = {&t.layers,  &t.items[0], &t.items[1], &t.items[2], &t.hop,
                             &t.cluster, &t.bytes,    &t.mem,      &t.limit};
    for (size_t i = 0; i < WEFT_LEN(all); i++) {
        out->failed = out->failed || all[i]->failed;
        wf_text_release(all[i]);
    }
}
