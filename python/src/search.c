/* Long calls: comparison of schedules, search for orders and for layouts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/values.h"
#include "ext.h"
#include "planning/planner/comparison.h"
#include "planning/planner/costs.h"
#include "planning/sim/hops.h"

/* -- comparison ---------------------------------------------------------------------------- */

static bool report_comparison(double share, const char *name, void *user)
{
    /* Every generator is reported: a report is the only moment at which an interrupt ends the
     * comparison. */
    return wf_py_watch_report(user, "{s:d,s:s}", "share", share, "schedule", name);
}

static PyObject *make_row(const void *rows, size_t i)
{
    const struct wf_comparison_row *r = &((const struct wf_comparison_row *)rows)[i];
    return Py_BuildValue("{s:s,s:I,s:I,s:I,s:d,s:d,s:d,s:d,s:d,s:n,s:d,s:d,s:N}", "schedule",
                         r->generator->name, "chunks", r->chunks, "stages", r->stages, "copies",
                         r->copies, "makespan", r->makespan, "span", r->span, "bubble",
                         r->bubble, "bubble_span", r->bubble_span, "peak_memory", r->peak,
                         "messages", (Py_ssize_t)r->messages, "bytes", r->bytes, "gap", r->gap,
                         "pareto", wf_py_bool(r->is_pareto));
}

static PyObject *make_omission(const void *omitted, size_t i)
{
    const struct wf_comparison_omission *o =
        &((const struct wf_comparison_omission *)omitted)[i];
    return Py_BuildValue("(sIs)", o->generator->name, o->chunks, o->reason);
}

static PyObject *make_comparison(const struct wf_comparison *c, bool interrupted)
{
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N}", "rows", wf_py_list(c->n, make_row, c->at),
                         "omitted", wf_py_list(c->n_omitted, make_omission, c->omitted),
                         "in_bytes", wf_py_bool(c->in_bytes), "stopped", wf_py_bool(c->stopped),
                         "interrupted", wf_py_bool(interrupted));
}

static bool read_comparison(PyObject *dict, struct wf_py_input *input,
                            struct wf_comparison_input *out)
{
    static const char *const orders[] = {"time", "span", "memory", "name"};
    unsigned order = WF_COMPARISON_BY_TIME;
    if (!wf_py_input_init(input, dict) || !wf_py_get_choice(dict, "sort", orders, 4, &order) ||
        !wf_py_get_values(dict, "chunk_list", &out->chunks))
        return false;
    out->plan = input->in;
    out->order = (enum wf_comparison_order)order;
    return true;
}

/* compare(options, progress): compares all schedules. */
static PyObject *compare(PyObject *module, PyObject *args)
{
    PyObject *dict, *callback, *result = NULL;
    struct wf_py_watch watch;
    struct wf_py_input input = {0};
    struct wf_comparison_input in = {.progress = report_comparison, .user = &watch};
    struct wf_comparison c;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:compare", &dict, &callback) ||
        !wf_py_watch_init(&watch, callback))
        return NULL;
    if (read_comparison(dict, &input, &in)) {
        wf_py_watch_begin(&watch);
        enum weft_status st = wf_comparison_init(&c, &in, &err);
        wf_py_watch_end(&watch);
        if (st != WEFT_OK)
            wf_py_watch_fail(&watch, &err);
        if (st == WEFT_OK && !watch.failed)
            result = make_comparison(&c, watch.interrupted);
        if (st == WEFT_OK)
            wf_comparison_release(&c);
    }
    wf_values_release(&in.chunks);
    wf_py_input_release(&input);
    return result;
}

/* -- orders -------------------------------------------------------------------------------- */

static bool report_order(const struct weft_tune_progress *p, void *user)
{
    if (!wf_py_watch_is_due(user))
        return true;
    return wf_py_watch_report(user, "{s:d,s:K,s:d,s:d,s:d,s:s}", "seconds", p->seconds,
                              "evaluations", (unsigned long long)p->evaluations, "makespan",
                              p->makespan, "span", p->span, "bound", p->bound, "origin",
                              p->origin);
}

/* The input of a search for an order. */
struct order_search {
    struct weft_tune_problem problem;
    struct weft_tune_options options;
    struct weft_cost cost;
    struct weft_memory_cost memory;
};

static bool read_order(PyObject *dict, struct order_search *s)
{
    static const char *const placements[] = {"linear", "loop", "v", "wave"};
    static const char *const metrics[] = {"span", "makespan"};
    struct weft_tune_problem *p = &s->problem;
    unsigned placement = WEFT_PLACEMENT_LINEAR, minimize = WEFT_MINIMIZE_MAKESPAN;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "expected a dict");
        return false;
    }
    if (!wf_py_get_u32(dict, "ranks", &p->ranks) ||
        !wf_py_get_u32(dict, "micros", &p->micros) ||
        !wf_py_get_u32(dict, "chunks", &p->chunks) ||
        !wf_py_get_choice(dict, "placement", placements, 4, &placement) ||
        !wf_py_get_choice(dict, "minimize", metrics, 2, &minimize) ||
        !wf_py_get_bool(dict, "whole", &p->whole) ||
        !wf_py_get_costs(dict, &s->cost, &s->memory) ||
        !wf_py_get_u64(dict, "iterations", &s->options.iterations) ||
        !wf_py_get_double(dict, "seconds", &s->options.seconds) ||
        !wf_py_get_u64(dict, "seed", &s->options.seed))
        return false;
    p->placement = (enum weft_placement_kind)placement;
    p->minimize = (enum weft_minimize)minimize;
    p->cost = &s->cost;
    p->memory = &s->memory;
    return true;
}

/* Makes a plan of a finished schedule. */
static enum weft_status plan_given(const struct wf_plan_input *how,
                                   const struct weft_schedule *s, struct wf_plan *out,
                                   struct weft_error *err)
{
    struct wf_plan_input in = *how;
    const struct weft_placement *place = weft_schedule_placement(s);
    in.schedule = weft_schedule_name(s);
    in.given = s;
    in.params.ranks = place->n_ranks;
    in.params.micros = place->n_micros;
    in.params.chunks = in.params.group = in.params.pipes = 0;
    return wf_plan_init(out, &in, err);
}

static PyObject *make_order(const struct weft_tune_result *r, const struct order_search *s,
                            bool interrupted)
{
    const struct wf_plan_input how = {.params = {.cost = &s->cost, .memory = &s->memory},
                                      .stage_costs = true};
    struct wf_plan plan;
    struct weft_error err;
    if (plan_given(&how, r->schedule, &plan, &err) != WEFT_OK)
        return wf_py_fail(&err);
    bool span = s->problem.minimize == WEFT_MINIMIZE_SPAN;
    return Py_BuildValue("{s:N,s:d,s:d,s:d,s:d,s:N,s:s,s:s,s:d,s:d,s:K,s:d,s:N}", "plan",
                         wf_py_plan(&plan), "bound", span ? r->bounds.span : r->bounds.makespan,
                         "bound_makespan", r->bounds.makespan, "bound_span", r->bounds.span,
                         "gap", r->gap, "proven", wf_py_bool(r->proven), "origin", r->origin,
                         "start", r->start, "start_makespan", r->start_makespan, "start_span",
                         r->start_span, "evaluations", (unsigned long long)r->evaluations,
                         "seconds", r->seconds, "interrupted", wf_py_bool(interrupted));
}

/* tune(options, progress): searches for the best order. */
static PyObject *tune(PyObject *module, PyObject *args)
{
    PyObject *dict, *callback, *result = NULL;
    struct wf_py_watch watch;
    struct order_search s = {.options = {.progress = report_order, .user = &watch}};
    struct weft_tune_result r;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:tune", &dict, &callback) ||
        !wf_py_watch_init(&watch, callback))
        return NULL;
    if (read_order(dict, &s)) {
        wf_py_watch_begin(&watch);
        enum weft_status st = weft_tune(&s.problem, &s.options, &r, &err);
        wf_py_watch_end(&watch);
        if (st != WEFT_OK)
            wf_py_watch_fail(&watch, &err);
        if (st == WEFT_OK && !watch.failed)
            result = make_order(&r, &s, watch.interrupted);
        if (st == WEFT_OK)
            weft_tune_result_release(&r);
    }
    wf_costs_release(&s.cost, &s.memory);
    return result;
}

/* -- layouts ------------------------------------------------------------------------------- */

static bool report_layout(const struct weft_layout_progress *p, void *user)
{
    if (!wf_py_watch_is_due(user))
        return true;
    return wf_py_watch_report(user, "{s:d,s:d,s:n,s:d,s:s}", "seconds", p->seconds, "share",
                              p->share, "tried", (Py_ssize_t)p->n_tried, "time", p->time,
                              "schedule", p->schedule);
}

/* The input of a search for layouts. */
struct layout_search {
    struct weft_layout_problem problem;
    struct wf_py_input input; /* the model, its costs and the machine */
    struct weft_model model;
    size_t max_layouts;
};

static bool read_model(struct layout_search *s)
{
    struct weft_error err;
    if (s->input.in.model == NULL)
        return true;
    if (weft_model_find(s->input.in.model, &s->model, &err) != WEFT_OK) {
        wf_py_fail(&err);
        return false;
    }
    s->problem.model = &s->model;
    return true;
}

static bool read_layouts(PyObject *dict, struct layout_search *s)
{
    struct weft_layout_problem *p = &s->problem;
    const struct wf_plan_input *in = &s->input.in;
    s->max_layouts = 8;
    p->iterations = 20000;
    if (!wf_py_input_init(&s->input, dict) || !read_model(s) ||
        !wf_py_get_u32(dict, "global_batch", &p->global_batch) ||
        !wf_py_get_size(dict, "layout_bytes", &p->bytes_limit) ||
        !wf_py_get_double(dict, "boundary_bytes", &p->boundary_bytes) ||
        !wf_py_get_u32(dict, "max_chunks", &p->max_chunks) ||
        !wf_py_get_u64(dict, "iterations", &p->iterations) ||
        !wf_py_get_double(dict, "seconds", &p->seconds) ||
        !wf_py_get_size(dict, "top", &s->max_layouts))
        return false;
    p->seq = in->seq;
    p->flops = in->flops;
    p->layers = in->layers;
    p->layer = in->layer;
    p->embedding = in->embedding;
    p->head = in->head;
    p->ranks = in->params.ranks;
    p->cluster = s->input.machine.cluster;
    p->unit_seconds = s->input.machine.unit_seconds;
    p->hop = s->input.cost.hop;
    p->minimize = in->params.minimize;
    return true;
}

/* Multiplies the costs of an item by the sequences of a micro-batch. */
static struct weft_item scale_item(struct weft_item item, uint32_t rows)
{
    return (struct weft_item){item.f * rows, item.i * rows, item.w * rows, item.state_bytes,
                              item.act_bytes * rows};
}

/* Writes the layers of each stage as the text of a partition: "4,3,3".  The caller frees the
 * result. */
static char *print_counts(const struct weft_partition *p)
{
    char *text = malloc((size_t)p->n_stages * 12 + 1);
    size_t len = 0;
    for (uint32_t i = 0; text != NULL && i < p->n_stages; i++)
        len += (size_t)sprintf(text + len, "%s%u", i == 0 ? "" : ",",
                               p->at[i].end_layer - p->at[i].first_layer);
    return text;
}

/* Makes the plan of a layout, with the model's costs per micro-batch and the given hops. */
static enum weft_status plan_layout(const struct layout_search *s, const struct weft_layout *l,
                                    const struct weft_cost *hops, const char *counts,
                                    struct wf_plan *out, struct weft_error *err)
{
    struct wf_plan_input how = s->input.in;
    static const struct weft_memory_cost no_memory = {0};
    how.params.cost = hops;
    how.params.memory = &no_memory;
    how.machine = &s->input.machine;
    how.rows = l->rows;
    how.item_costs = how.model == NULL;
    how.layer = scale_item(how.layer, l->rows);
    how.embedding = scale_item(how.embedding, l->rows);
    how.head = scale_item(how.head, l->rows);
    how.bytes_limit = (struct weft_values){0};
    how.partition = (struct wf_partition_choice){WF_PARTITION_COUNTS, counts};
    return plan_given(&how, l->result, out, err);
}

/* Computes the hops of the layout's pipeline on its cluster. */
static enum weft_status place_hops(const struct layout_search *s, const struct weft_layout *l,
                                   const struct wf_plan *plan, struct weft_cost *out,
                                   struct weft_error *err)
{
    struct weft_sim_options machine = {.cost = &plan->cost,
                                       .cluster = &l->cluster,
                                       .unit_seconds = s->problem.unit_seconds,
                                       .bytes = {&l->message_bytes, 1}};
    struct weft_cost placed;
    WEFT_TRY(wf_cost_place(&placed, weft_schedule_placement(plan->schedule), &machine, err));
    *out = (struct weft_cost){.forward_hop = placed.forward_hop,
                              .backward_hop = placed.backward_hop};
    placed.forward_hop = placed.backward_hop = (struct weft_values){0};
    wf_cost_release(&placed);
    return WEFT_OK;
}

/* Makes the plan of a layout; with a cluster, a second time with the hops of its links. */
static enum weft_status time_layout(const struct layout_search *s, const struct weft_layout *l,
                                    struct wf_plan *out, struct weft_error *err)
{
    struct weft_cost hops = {.hop = l->cluster.nodes == 0 ? s->problem.hop : 0};
    struct wf_plan plan;
    char *counts = print_counts(&l->partition);
    if (counts == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition");
    enum weft_status st = plan_layout(s, l, &hops, counts, &plan, err);
    if (st == WEFT_OK && l->cluster.nodes != 0) {
        st = place_hops(s, l, &plan, &hops, err);
        wf_plan_release(&plan);
        if (st == WEFT_OK)
            st = plan_layout(s, l, &hops, counts, &plan, err);
        wf_cost_release(&hops);
    }
    free(counts);
    if (st == WEFT_OK)
        *out = plan;
    return st;
}

/* The layouts that a search found. */
struct found_layouts {
    const struct layout_search *search;
    const struct weft_layout *at;
};

static PyObject *make_layout(const void *ctx, size_t i)
{
    const struct found_layouts *found = ctx;
    const struct weft_layout *l = &found->at[i];
    struct wf_plan plan;
    struct weft_error err;
    if (time_layout(found->search, l, &plan, &err) != WEFT_OK)
        return wf_py_fail(&err);
    return Py_BuildValue(
        "{s:N,s:s,s:I,s:I,s:N,s:I,s:I,s:I,s:N,s:d,s:d,s:d,s:d,s:d,s:d,s:n,s:d}", "plan",
        wf_py_plan(&plan), "schedule", l->schedule, "ranks", l->ranks, "replicas", l->replicas,
        "replicas_adjacent", wf_py_bool(l->replicas_adjacent), "chunks", l->chunks, "micros",
        l->micros, "rows", l->rows, "balanced", wf_py_bool(l->balanced), "time", l->time,
        "makespan", l->makespan, "span", l->span, "bubble", l->bubble, "reduction",
        l->reduction, "bound", l->bound, "peak_bytes", (Py_ssize_t)l->peak_bytes,
        "message_bytes", l->message_bytes);
}

static PyObject *make_layouts(const struct layout_search *s, const struct weft_layouts *l,
                              bool interrupted)
{
    const struct found_layouts found = {s, l->at};
    PyObject *list = wf_py_list(l->n, make_layout, &found);
    if (list == NULL)
        return NULL;
    return Py_BuildValue("{s:N,s:n,s:n,s:n,s:N,s:N}", "layouts", list, "tried",
                         (Py_ssize_t)l->n_tried, "pruned", (Py_ssize_t)l->n_pruned,
                         "over_limit", (Py_ssize_t)l->n_over_limit, "stopped",
                         wf_py_bool(l->stopped), "interrupted", wf_py_bool(interrupted));
}

/* layouts(options, progress): searches for partition, micros, chunks and schedule. */
static PyObject *layouts(PyObject *module, PyObject *args)
{
    PyObject *dict, *callback, *result = NULL;
    struct wf_py_watch watch;
    struct layout_search s = {.problem = {.progress = report_layout, .user = &watch}};
    struct weft_layouts l;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:layouts", &dict, &callback) ||
        !wf_py_watch_init(&watch, callback))
        return NULL;
    if (read_layouts(dict, &s)) {
        wf_py_watch_begin(&watch);
        enum weft_status st = weft_tune_layouts(&s.problem, s.max_layouts, &l, &err);
        wf_py_watch_end(&watch);
        if (st != WEFT_OK)
            wf_py_watch_fail(&watch, &err);
        if (st == WEFT_OK && !watch.failed)
            result = make_layouts(&s, &l, watch.interrupted);
        if (st == WEFT_OK)
            weft_layouts_release(&l);
    }
    wf_py_input_release(&s.input);
    return result;
}

PyMethodDef wf_py_search_methods[] = {
    {"compare", compare, METH_VARARGS, NULL},
    {"tune", tune, METH_VARARGS, NULL},
    {"layouts", layouts, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
