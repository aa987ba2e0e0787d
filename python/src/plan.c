/* Functions of plans: planning, metrics, bounds, simulation and partitions. */
#include <stdlib.h>
#include <string.h>

#include "config/values.h"
#include "ext.h"
#include "planning/planner/choice.h"
#include "planning/planner/costs.h"
#include "planning/planner/export.h"
#include "planning/planner/simulation.h"
#include "planning/spec/item_times.h"

/* -- input --------------------------------------------------------------------------------- */

bool wf_py_get_costs(PyObject *dict, struct weft_cost *cost, struct weft_memory_cost *memory)
{
    return wf_py_get_values(dict, "f", &cost->f) && wf_py_get_values(dict, "i", &cost->i) &&
           wf_py_get_values(dict, "w", &cost->w) && wf_py_get_values(dict, "b", &cost->b) &&
           wf_py_get_values(dict, "fb", &cost->fb) &&
           wf_py_get_double(dict, "hop", &cost->hop) &&
           wf_py_get_bool(dict, "first_backward_in_w", &cost->first_backward_in_w) &&
           wf_py_get_values(dict, "forward_hop", &cost->forward_hop) &&
           wf_py_get_values(dict, "backward_hop", &cost->backward_hop) &&
           wf_py_get_values(dict, "mem_f", &memory->f) &&
           wf_py_get_values(dict, "mem_i", &memory->i) &&
           wf_py_get_values(dict, "mem_w", &memory->w) &&
           wf_py_get_values(dict, "mem_limit", &memory->limit);
}

static bool read_cluster(PyObject *dict, struct weft_cluster *cluster,
                         const struct weft_cluster **out)
{
    const char *text = NULL;
    struct weft_error err;
    if (!wf_py_get_text(dict, "cluster", &text))
        return false;
    if (text == NULL)
        return true;
    if (weft_cluster_parse(text, cluster, &err) != WEFT_OK) {
        wf_py_fail(&err);
        return false;
    }
    *out = cluster;
    return true;
}

static bool read_machine(PyObject *dict, struct wf_py_input *out)
{
    static const char *const words[] = {"delay", "link", "ranks"};
    unsigned contention = 0;
    struct weft_sim_options *m = &out->machine;
    bool given = false;
    m->unit_seconds = 1e-3;
    if (!read_cluster(dict, &out->cluster, &m->cluster) ||
        !wf_py_get_double(dict, "unit_seconds", &m->unit_seconds) ||
        !wf_py_get_values(dict, "speed", &m->speed) ||
        !wf_py_get_values(dict, "bytes", &m->bytes) ||
        !wf_py_get_values(dict, "gradient_bytes", &m->gradient_bytes) ||
        !wf_py_get_choice(dict, "transfers", words, 3, &contention) ||
        !wf_py_get_bool(dict, "machine", &given))
        return false;
    m->contention = (enum weft_contention)contention;
    out->in.machine = given ? m : NULL;
    return true;
}

static bool read_params(PyObject *dict, struct weft_gen_params *p)
{
    static const char *const words[] = {"span", "makespan"};
    unsigned minimize = WEFT_MINIMIZE_SPAN;
    if (!wf_py_get_choice(dict, "minimize", words, 2, &minimize))
        return false;
    p->minimize = (enum weft_minimize)minimize;
    return wf_py_get_u32(dict, "ranks", &p->ranks) &&
           wf_py_get_u32(dict, "micros", &p->micros) &&
           wf_py_get_u32(dict, "chunks", &p->chunks) &&
           wf_py_get_u32(dict, "group", &p->group) && wf_py_get_u32(dict, "pipes", &p->pipes);
}

static bool read_model(PyObject *dict, struct wf_plan_input *in)
{
    const char *partition = NULL;
    in->layer = (struct weft_item){.f = 1, .i = 1, .w = 1};
    if (!wf_py_get_text(dict, "model", &in->model) || !wf_py_get_u32(dict, "rows", &in->rows) ||
        !wf_py_get_u32(dict, "seq", &in->seq) || !wf_py_get_double(dict, "flops", &in->flops) ||
        !wf_py_get_u32(dict, "layers", &in->layers) ||
        !wf_py_get_bool(dict, "item_costs", &in->item_costs) ||
        !wf_py_get_item(dict, "layer", &in->layer) ||
        !wf_py_get_item(dict, "embedding", &in->embedding) ||
        !wf_py_get_item(dict, "head", &in->head) ||
        !wf_py_get_text(dict, "partition", &partition) ||
        !wf_py_get_values(dict, "bytes_limit", &in->bytes_limit))
        return false;
    in->partition = wf_partition_choice_parse(partition, WF_PARTITION_EVEN);
    return true;
}

/* Reads a finished schedule; without one, *out stays NULL. */
static bool read_given(PyObject *dict, const struct weft_schedule **out)
{
    PyObject *handle = PyDict_GetItemString(dict, "given");
    if (handle == NULL)
        return true;
    *out = wf_py_as_schedule(handle);
    return *out != NULL;
}

bool wf_py_input_init(struct wf_py_input *out, PyObject *dict)
{
    *out = (struct wf_py_input){0};
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "expected a dict");
        return false;
    }
    struct wf_plan_input *in = &out->in;
    in->schedule = "";
    in->params.cost = &out->cost;
    in->params.memory = &out->memory;
    return wf_py_get_text(dict, "schedule", &in->schedule) && read_given(dict, &in->given) &&
           read_params(dict, &in->params) && wf_py_get_costs(dict, &out->cost, &out->memory) &&
           wf_py_get_bool(dict, "stage_costs", &in->stage_costs) && read_model(dict, in) &&
           wf_py_get_bool(dict, "forward_only", &in->forward_only) && read_machine(dict, out);
}

void wf_py_input_release(struct wf_py_input *in)
{
    wf_costs_release(&in->cost, &in->memory);
    wf_values_release(&in->in.bytes_limit);
    wf_values_release(&in->machine.speed);
    wf_values_release(&in->machine.bytes);
    wf_values_release(&in->machine.gradient_bytes);
}

/* plan(options): builds, proves and times a plan. */
static PyObject *make_plan(PyObject *module, PyObject *dict)
{
    struct wf_py_input input;
    struct wf_plan plan;
    struct weft_error err;
    PyObject *result = NULL;
    (void)module;
    if (wf_py_input_init(&input, dict)) {
        enum weft_status st;
        Py_BEGIN_ALLOW_THREADS;
        st = wf_plan_init(&plan, &input.in, &err);
        Py_END_ALLOW_THREADS;
        result = st == WEFT_OK ? wf_py_plan(&plan) : wf_py_fail(&err);
    }
    wf_py_input_release(&input);
    return result;
}

/* -- results ------------------------------------------------------------------------------- */

/* Returns (first layer, end layer, has embedding, has head). */
static PyObject *make_stage(const void *stages, size_t i)
{
    const struct weft_stage_range *s = &((const struct weft_stage_range *)stages)[i];
    return Py_BuildValue("(IIOO)", s->first_layer, s->end_layer,
                         s->embedding ? Py_True : Py_False, s->head ? Py_True : Py_False);
}

static bool put_metrics(PyObject *d, const struct weft_metrics *m)
{
    size_t n = m->n_ranks;
    return wf_py_put(d, "n_actions", PyLong_FromSize_t(m->n_actions)) &&
           wf_py_put(d, "n_messages", PyLong_FromSize_t(m->n_messages)) &&
           wf_py_put(d, "makespan", PyFloat_FromDouble(m->makespan)) &&
           wf_py_put(d, "span", PyFloat_FromDouble(m->span)) &&
           wf_py_put(d, "bubble", PyFloat_FromDouble(m->bubble)) &&
           wf_py_put(d, "bubble_span", PyFloat_FromDouble(m->bubble_span)) &&
           wf_py_put(d, "bubble_ratio", PyFloat_FromDouble(m->bubble_ratio)) &&
           wf_py_put(d, "efficiency", PyFloat_FromDouble(m->efficiency)) &&
           wf_py_put(d, "busy", wf_py_doubles(m->busy, n)) &&
           wf_py_put(d, "idle", wf_py_doubles(m->idle, n)) &&
           wf_py_put(d, "rank_span", wf_py_doubles(m->rank_span, n)) &&
           wf_py_put(d, "peak_memory", wf_py_doubles(m->peak_mem, n)) &&
           wf_py_put(d, "peak_activations", wf_py_sizes(m->peak_activations, n));
}

static bool put_costs(PyObject *d, const struct wf_plan *p)
{
    const struct weft_cost *c = &p->cost;
    const struct weft_memory_cost *m = &p->memory;
    return wf_py_put(d, "f", wf_py_values(c->f)) && wf_py_put(d, "i", wf_py_values(c->i)) &&
           wf_py_put(d, "w", wf_py_values(c->w)) && wf_py_put(d, "b", wf_py_values(c->b)) &&
           wf_py_put(d, "fb", wf_py_values(c->fb)) &&
           wf_py_put(d, "hop", PyFloat_FromDouble(c->hop)) &&
           wf_py_put(d, "first_backward_in_w", wf_py_bool(c->first_backward_in_w)) &&
           wf_py_put(d, "forward_hop", wf_py_values(c->forward_hop)) &&
           wf_py_put(d, "backward_hop", wf_py_values(c->backward_hop)) &&
           wf_py_put(d, "mem_f", wf_py_values(m->f)) &&
           wf_py_put(d, "mem_i", wf_py_values(m->i)) &&
           wf_py_put(d, "mem_w", wf_py_values(m->w)) &&
           wf_py_put(d, "mem_limit", wf_py_values(m->limit));
}

/* plan_info(plan): metrics, costs, partition and bytes. */
static PyObject *get_plan_info(PyObject *module, PyObject *handle)
{
    (void)module;
    const struct wf_plan *p = wf_py_as_plan(handle);
    PyObject *d = p == NULL ? NULL : PyDict_New();
    if (d == NULL)
        return NULL;
    uint32_t n = p->bytes.n_ranks;
    if (put_metrics(d, &p->metrics) && put_costs(d, p) &&
        wf_py_put(d, "partition",
                  wf_py_list(p->partition.n_stages, make_stage, p->partition.at)) &&
        wf_py_put(d, "layers", PyLong_FromUnsignedLong(weft_items_n_layers(&p->items))) &&
        wf_py_put(d, "state_bytes", wf_py_sizes(p->bytes.state, n)) &&
        wf_py_put(d, "total_bytes", wf_py_sizes(p->bytes.total, n)) &&
        wf_py_put(d, "in_ticks", wf_py_bool(p->in_ticks)))
        return d;
    Py_DECREF(d);
    return NULL;
}

static PyObject *make_event(const void *events, size_t i)
{
    const struct weft_event *e = &((const struct weft_event *)events)[i];
    return Py_BuildValue("(dIIIII)", e->start, e->rank, e->stage, e->chunk, e->micro,
                         (unsigned)e->kind);
}

/* plan_events(plan): a list of (start, rank, stage, chunk, micro, kind), in order of start. */
static PyObject *list_events(PyObject *module, PyObject *handle)
{
    (void)module;
    const struct wf_plan *p = wf_py_as_plan(handle);
    struct weft_event *events = NULL;
    size_t n = 0;
    struct weft_error err;
    if (p == NULL)
        return NULL;
    if (weft_event_list(p->schedule, &p->metrics, &events, &n, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *list = wf_py_list(n, make_event, events);
    free(events);
    return list;
}

/* Returns the name and the value of each kind of bound. */
static PyObject *list_bounds(const double *each)
{
    PyObject *d = PyDict_New();
    for (int i = 0; d != NULL && i < WEFT_N_BOUNDS; i++)
        if (!wf_py_put(d, weft_bound_name((enum weft_bound_kind)i),
                       PyFloat_FromDouble(each[i])))
            Py_CLEAR(d);
    return d;
}

static PyObject *make_bounds(const struct weft_bounds *b)
{
    return Py_BuildValue("{s:d,s:d,s:s,s:s,s:N,s:N}", "makespan", b->makespan, "span", b->span,
                         "makespan_by", weft_bound_name(b->makespan_by), "span_by",
                         weft_bound_name(b->span_by), "each_makespan",
                         list_bounds(b->each_makespan), "each_span", list_bounds(b->each_span));
}

/* plan_bounds(plan, effort): lower bounds for the plan's placement, costs and memory. */
static PyObject *get_bounds(PyObject *module, PyObject *args)
{
    PyObject *handle;
    double effort;
    struct weft_bounds b;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "Od:plan_bounds", &handle, &effort))
        return NULL;
    const struct wf_plan *p = wf_py_as_plan(handle);
    if (p == NULL)
        return NULL;
    enum weft_status st;
    Py_BEGIN_ALLOW_THREADS;
    st = weft_bounds_of(p->schedule, &p->cost, &p->memory, effort, &b, &err);
    Py_END_ALLOW_THREADS;
    return st == WEFT_OK ? make_bounds(&b) : wf_py_fail(&err);
}

/* plan_trace(plan): the trace of the planned times. */
static PyObject *make_trace(PyObject *module, PyObject *handle)
{
    struct weft_trace t;
    struct weft_error err;
    (void)module;
    const struct wf_plan *p = wf_py_as_plan(handle);
    if (p == NULL)
        return NULL;
    if (weft_trace_init_plan(&t, p->schedule, &p->metrics, &p->memory, &err) != WEFT_OK)
        return wf_py_fail(&err);
    return wf_py_trace(&t);
}

/* -- simulation ---------------------------------------------------------------------------- */

static PyObject *make_idle(const void *ranks, size_t i)
{
    const struct weft_idle_time *t = &((const struct weft_idle_time *)ranks)[i];
    return Py_BuildValue("(ddddd)", t->warm_up, t->drain, t->communication, t->imbalance,
                         t->data);
}

static PyObject *make_link(const void *links, size_t i)
{
    const struct weft_link_usage *l = &((const struct weft_link_usage *)links)[i];
    return Py_BuildValue("(IInddd)", l->from, l->to, (Py_ssize_t)l->messages, l->forward_bytes,
                         l->backward_bytes, l->busy);
}

static bool put_samples(PyObject *d, const struct weft_samples *s, uint32_t ranks)
{
    if (s->n == 0)
        return true;
    return wf_py_put(d, "samples",
                     Py_BuildValue("{s:N,s:d,s:d,s:d,s:d,s:N}", "makespans",
                                   wf_py_floats(s->makespan, s->n), "mean", s->mean, "p5",
                                   s->p5, "p50", s->p50, "p95", s->p95, "slow_rank",
                                   wf_py_floats(s->slow_rank, ranks)));
}

static PyObject *make_simulation(const struct wf_simulation *s, const struct wf_plan *plan)
{
    const struct weft_sim *sim = &s->sim;
    struct weft_trace t;
    struct weft_error err;
    if (weft_trace_init_plan(&t, plan->schedule, &sim->metrics, &plan->memory, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *trace = wf_py_trace(&t), *d = PyDict_New();
    uint32_t ranks = sim->metrics.n_ranks;
    if (trace != NULL && d != NULL && wf_py_put(d, "trace", trace) &&
        put_metrics(d, &sim->metrics) &&
        wf_py_put(d, "causes", wf_py_list(ranks, make_idle, sim->idle)) &&
        wf_py_put(d, "links", wf_py_list(sim->n_links, make_link, sim->links)) &&
        wf_py_put(d, "path",
                  Py_BuildValue("(ddd)", sim->path_compute, sim->path_hops, sim->path_wait)) &&
        wf_py_put(d, "peak_pending_w", wf_py_sizes(sim->peak_pending_w, ranks)) &&
        wf_py_put(d, "peak_receive", wf_py_sizes(sim->peak_receive, ranks)) &&
        wf_py_put(d, "bounds", make_bounds(&s->bounds)) && put_samples(d, &s->samples, ranks))
        return d;
    if (d == NULL)
        Py_XDECREF(trace);
    Py_XDECREF(d);
    return NULL;
}

static bool read_simulation(PyObject *dict, struct wf_py_input *input,
                            struct wf_simulation_input *out)
{
    if (!wf_py_input_init(input, dict))
        return false;
    *out = (struct wf_simulation_input){.options = input->machine,
                                        .jitter = {.sigma = 0.05, .seed = 1}};
    return wf_py_get_size(dict, "samples", &out->n_samples) &&
           wf_py_get_double(dict, "jitter", &out->jitter.sigma) &&
           wf_py_get_u64(dict, "seed", &out->jitter.seed) &&
           wf_py_get_double(dict, "effort", &out->effort);
}

/* simulate(plan, options): runs a plan on a machine. */
static PyObject *simulate(PyObject *module, PyObject *args)
{
    PyObject *handle, *dict, *result = NULL;
    struct wf_py_input input = {0};
    struct wf_simulation_input how;
    struct wf_simulation s;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:simulate", &handle, &dict))
        return NULL;
    const struct wf_plan *plan = wf_py_as_plan(handle);
    if (plan == NULL)
        return NULL;
    if (read_simulation(dict, &input, &how)) {
        enum weft_status st;
        Py_BEGIN_ALLOW_THREADS;
        st = wf_simulation_init(&s, plan, &how, &err);
        Py_END_ALLOW_THREADS;
        if (st == WEFT_OK) {
            result = make_simulation(&s, plan);
            wf_simulation_release(&s);
        } else {
            wf_py_fail(&err);
        }
    }
    wf_py_input_release(&input);
    return result;
}

/* -- partitions ---------------------------------------------------------------------------- */

static enum weft_status init_items(struct weft_items *items, const struct wf_plan_input *in,
                                   uint32_t stages, struct weft_error *err)
{
    struct weft_model model;
    uint32_t layers = in->layers;
    if (in->model == NULL) {
        if (layers == 0) {
            enum weft_status st =
                wf_partition_choice_layers(in->partition, stages, &layers, err);
            if (st != WEFT_OK)
                return st;
        }
        return weft_items_init_uniform(items, layers != 0 ? layers : stages, in->layer,
                                       in->embedding, in->head, err);
    }
    enum weft_status st = weft_model_find(in->model, &model, err);
    if (st == WEFT_OK)
        st = weft_items_init_model(items, &model, in->rows ? in->rows : 1,
                                   in->seq ? in->seq : model.ctx, err);
    if (st == WEFT_OK)
        wf_items_set_speed(items, in->flops,
                           in->machine != NULL ? in->machine->unit_seconds : 0);
    return st;
}

/* Returns the layout string of a partition. */
static PyObject *make_layout(const struct weft_partition *p)
{
    char *text = NULL;
    struct weft_error err;
    if (weft_partition_print_pattern(p, &text, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *layout = PyUnicode_FromString(text);
    free(text);
    return layout;
}

/* Returns the stages, the layout, and the times and bytes of each stage. */
static PyObject *make_partition(const struct weft_partition *p, const struct weft_items *items)
{
    struct weft_stage_sums sums = {0};
    struct weft_error err;
    if (weft_stage_sums_init(&sums, p, items, &err) != WEFT_OK)
        return wf_py_fail(&err);
    size_t n = sums.n_stages;
    PyObject *d = Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:I}", "stages",
        wf_py_list(p->n_stages, make_stage, p->at), "layout", make_layout(p), "f",
        wf_py_doubles(sums.f, n), "i", wf_py_doubles(sums.i, n), "w", wf_py_doubles(sums.w, n),
        "state_bytes", wf_py_sizes(sums.state_bytes, n), "act_bytes",
        wf_py_sizes(sums.act_bytes, n), "layers", (unsigned)weft_items_n_layers(items));
    weft_stage_sums_release(&sums);
    return d;
}

/* partition(options, stages): cuts a model without a schedule. */
static PyObject *partition(PyObject *module, PyObject *args)
{
    PyObject *dict, *result = NULL;
    unsigned stages;
    struct wf_py_input input = {0};
    struct weft_items items = {0};
    struct weft_partition p;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OI:partition", &dict, &stages))
        return NULL;
    if (wf_py_input_init(&input, dict)) {
        enum weft_status st;
        Py_BEGIN_ALLOW_THREADS;
        st = init_items(&items, &input.in, stages, &err);
        if (st == WEFT_OK)
            st = wf_partition_choose(&p, input.in.partition, &items, stages, NULL, &err);
        Py_END_ALLOW_THREADS;
        if (st == WEFT_OK) {
            result = make_partition(&p, &items);
            weft_partition_release(&p);
        } else {
            wf_py_fail(&err);
        }
    }
    weft_items_release(&items);
    wf_py_input_release(&input);
    return result;
}

/* -- settings of other programs ------------------------------------------------------------ */

/* megatron(plan): the arguments of Megatron-LM, as values and as text. */
static PyObject *get_megatron(PyObject *module, PyObject *handle)
{
    struct wf_megatron m;
    struct weft_error err;
    char *text = NULL;
    (void)module;
    const struct wf_plan *p = wf_py_as_plan(handle);
    if (p == NULL)
        return NULL;
    if (wf_megatron_init(&m, p->schedule, &p->partition, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *d = NULL;
    if (wf_megatron_print(&m, &text, &err) == WEFT_OK)
        d = Py_BuildValue("{s:I,s:I,s:I,s:s,s:I,s:I,s:s,s:s}", "pipeline_model_parallel_size",
                          m.pipeline_size, "virtual_size", m.virtual_size, "group_size",
                          m.group_size, "layout", m.layout, "layers", m.n_layers, "micros",
                          m.n_micros, "version", WF_MEGATRON_VERSION, "text", text);
    else
        wf_py_fail(&err);
    free(text);
    wf_megatron_release(&m);
    return d;
}

/* A stage of the settings of torchtitan. */
struct titan_stage {
    const struct wf_torchtitan *settings;
    uint32_t stage;
};

static PyObject *make_module(const void *ctx, size_t i)
{
    const struct titan_stage *s = ctx;
    char name[WF_MODULE_NAME];
    wf_torchtitan_module(s->settings, s->stage, (uint32_t)i, name);
    return PyUnicode_FromString(name);
}

static PyObject *make_modules(const void *settings, size_t stage)
{
    const struct titan_stage s = {settings, (uint32_t)stage};
    return wf_py_list(wf_torchtitan_n_modules(settings, s.stage), make_module, &s);
}

/* torchtitan(plan): the settings of torchtitan, as values and as text. */
static PyObject *get_torchtitan(PyObject *module, PyObject *handle)
{
    struct wf_torchtitan t;
    struct weft_error err;
    char *text = NULL;
    (void)module;
    const struct wf_plan *p = wf_py_as_plan(handle);
    if (p == NULL)
        return NULL;
    if (wf_torchtitan_init(&t, p->schedule, &p->partition, &err) != WEFT_OK ||
        wf_torchtitan_print(&t, &text, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *d = Py_BuildValue("{s:I,s:s,s:s,s:I,s:N,s:s,s:s}", "pipeline_parallel_degree",
                                t.pipeline_degree, "pipeline_parallel_schedule", t.schedule,
                                "pipeline_parallel_schedule_csv", t.csv, "num_pp_microbatches",
                                t.n_micros, "module_fqns_per_model_part",
                                wf_py_list(p->partition.n_stages, make_modules, &t), "version",
                                WF_TORCHTITAN_VERSION, "text", text);
    free(text);
    return d;
}

PyMethodDef wf_py_plan_methods[] = {
    {"plan", make_plan, METH_O, NULL},
    {"plan_info", get_plan_info, METH_O, NULL},
    {"plan_events", list_events, METH_O, NULL},
    {"plan_bounds", get_bounds, METH_VARARGS, NULL},
    {"plan_trace", make_trace, METH_O, NULL},
    {"simulate", simulate, METH_VARARGS, NULL},
    {"partition", partition, METH_VARARGS, NULL},
    {"megatron", get_megatron, METH_O, NULL},
    {"torchtitan", get_torchtitan, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
