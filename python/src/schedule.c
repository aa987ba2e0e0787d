/* Functions of schedules: text form, rows, lowering and verification. */
#include <stdlib.h>
#include <string.h>

#include "ext.h"
#include "planning/planner/check.h"

/* -- text and rows ------------------------------------------------------------------------- */

/* parse(text, source): reads either text form. */
static PyObject *parse(PyObject *module, PyObject *args)
{
    PyObject *text, *source;
    char *bytes, *name;
    Py_ssize_t len;
    struct weft_error err;
    struct weft_schedule *s = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:parse", &text, &source) ||
        PyBytes_AsStringAndSize(text, &bytes, &len) != 0 ||
        PyBytes_AsStringAndSize(source, &name, NULL) != 0)
        return NULL;
    if (weft_schedule_parse(bytes, (size_t)len, name, &s, &err) != WEFT_OK)
        return wf_py_fail(&err);
    return wf_py_schedule(s);
}

/* schedule_text(schedule, pytorch): prints weft's or PyTorch's text form. */
static PyObject *print(PyObject *module, PyObject *args)
{
    PyObject *handle;
    int pytorch;
    struct weft_error err;
    char *text = NULL;
    size_t len = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "Op:schedule_text", &handle, &pytorch))
        return NULL;
    const struct weft_schedule *s = wf_py_as_schedule(handle);
    if (s == NULL)
        return NULL;
    if (weft_schedule_print(s, pytorch ? WEFT_TEXT_FORMAT_PYTORCH : WEFT_TEXT_FORMAT_CSV, &text,
                            &len, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace");
    free(text);
    return result;
}

static PyObject *make_action(const void *row, size_t i)
{
    const struct weft_action *a = &((const struct weft_action *)row)[i];
    return Py_BuildValue("(IIIO)", (unsigned)a->kind, (unsigned)a->stage, (unsigned)a->micro,
                         a->paired ? Py_True : Py_False);
}

/* schedule_row(schedule, rank): a list of (kind, stage, micro, paired). */
static PyObject *get_row(PyObject *module, PyObject *args)
{
    PyObject *handle;
    unsigned rank;
    (void)module;
    if (!PyArg_ParseTuple(args, "OI:schedule_row", &handle, &rank))
        return NULL;
    const struct weft_schedule *s = wf_py_as_schedule(handle);
    if (s == NULL)
        return NULL;
    if (rank >= weft_schedule_placement(s)->n_ranks) {
        PyErr_SetString(PyExc_IndexError, "the schedule does not have that rank");
        return NULL;
    }
    struct weft_action_span row = weft_schedule_rank(s, rank);
    return wf_py_list(row.len, make_action, row.at);
}

/* Returns the rank of each stage of a pipe. */
static PyObject *make_pipe(const void *placement, size_t pipe)
{
    const struct weft_placement *p = placement;
    return wf_py_u32s(p->rank_of + pipe * p->n_stages, p->n_stages);
}

/* schedule_info(schedule): sizes, placement and properties. */
static PyObject *get_info(PyObject *module, PyObject *handle)
{
    (void)module;
    const struct weft_schedule *s = wf_py_as_schedule(handle);
    if (s == NULL)
        return NULL;
    const struct weft_placement *p = weft_schedule_placement(s);
    const char *name = weft_schedule_name(s);
    PyObject *d =
        Py_BuildValue("{s:I,s:I,s:I,s:I,s:s,s:n}", "ranks", p->n_ranks, "stages", p->n_stages,
                      "micros", p->n_micros, "chunks", weft_schedule_n_chunks(s),
                      "placement_kind", weft_placement_name(weft_schedule_placement_kind(s)),
                      "actions", (Py_ssize_t)weft_schedule_n_actions(s));
    if (d == NULL)
        return NULL;
    if (wf_py_put(d, "name", PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace")) &&
        wf_py_put(d, "pipes", wf_py_list(p->n_pipes, make_pipe, p)) &&
        wf_py_put(d, "lowered", wf_py_bool(weft_schedule_is_lowered(s))) &&
        wf_py_put(d, "forward_only", wf_py_bool(weft_schedule_is_forward_only(s))))
        return d;
    Py_DECREF(d);
    return NULL;
}

/* -- lowering ------------------------------------------------------------------------------ */

static PyObject *make_lowering(const void *unused, size_t i)
{
    (void)unused;
    return PyUnicode_FromString(weft_lowering_name((enum weft_lowering)i));
}

/* lowerings(): the names of the lowerings. */
static PyObject *list_lowerings(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return wf_py_list(WEFT_N_LOWERINGS, make_lowering, NULL);
}

/* lower(schedule, how): adds the messages. */
static PyObject *lower(PyObject *module, PyObject *args)
{
    PyObject *handle;
    const char *how;
    struct weft_error err;
    struct weft_schedule *out = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "Os:lower", &handle, &how))
        return NULL;
    const struct weft_schedule *s = wf_py_as_schedule(handle);
    if (s == NULL)
        return NULL;
    enum weft_lowering lowering;
    if (weft_lowering_find(how, &lowering, &err) != WEFT_OK ||
        weft_schedule_lower(s, lowering, &out, &err) != WEFT_OK)
        return wf_py_fail(&err);
    return wf_py_schedule(out);
}

/* -- verification -------------------------------------------------------------------------- */

/* A verified schedule. */
struct verified {
    const struct weft_schedule *schedule;
    const struct weft_verify_result *result;
};

/* Returns (rule, text, rank or None, position or None, cell or None). */
static PyObject *make_finding(const void *ctx, size_t i)
{
    const struct verified *v = ctx;
    const struct weft_finding *f = &v->result->findings[i];
    char cell[WEFT_ACTION_TEXT_MAX] = "";
    if (!f->has_position)
        return Py_BuildValue("(ssOOO)", weft_rule_name(f->rule), f->text, Py_None, Py_None,
                             Py_None);
    struct weft_action_span row = weft_schedule_rank(v->schedule, f->rank);
    if (f->position < row.len)
        weft_action_print(row.at[f->position], cell);
    return Py_BuildValue("(ssInz)", weft_rule_name(f->rule), f->text, f->rank,
                         (Py_ssize_t)f->position, cell[0] != '\0' ? cell : NULL);
}

/* Returns (rank, cell, rank that it waits for, cell that it waits for). */
static PyObject *make_wait(const void *cycle, size_t i)
{
    const struct weft_wait *w = &((const struct weft_wait *)cycle)[i];
    char at[WEFT_ACTION_TEXT_MAX], wanted[WEFT_ACTION_TEXT_MAX];
    weft_action_print(w->action, at);
    weft_action_print(w->for_action, wanted);
    return Py_BuildValue("(IsIs)", w->rank, at, w->for_rank, wanted);
}

static PyObject *make_result(const struct weft_schedule *s,
                             const struct weft_channel_model *model,
                             const struct weft_verify_result *r)
{
    const struct wf_check check = {
        .channels = *model, .read = (struct weft_schedule *)s, .result = *r};
    const struct verified v = {s, r};
    struct weft_error err = {0};
    size_t depth = 0;
    if (wf_check_enough_depth(&check, &depth, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *d = Py_BuildValue("{s:n,s:n,s:n,s:n,s:n}", "n_findings",
                                (Py_ssize_t)r->n_findings, "compute", (Py_ssize_t)r->n_compute,
                                "messages", (Py_ssize_t)r->n_messages, "channels",
                                (Py_ssize_t)r->n_channels, "enough_depth", (Py_ssize_t)depth);
    if (d == NULL)
        return NULL;
    if (wf_py_put(d, "findings", wf_py_list(wf_check_n_findings(&check), make_finding, &v)) &&
        wf_py_put(d, "cycle", wf_py_list(r->n_cycle, make_wait, r->cycle)) &&
        wf_py_put(d, "peak_activations", wf_py_sizes(r->peak_activations, r->n_ranks)))
        return d;
    Py_DECREF(d);
    return NULL;
}

/* verify(schedule, transport, by_pair): all findings.  `transport` is that of
 * wf_channel_depth_parse(). */
static PyObject *verify(PyObject *module, PyObject *args)
{
    PyObject *handle, *text;
    char *transport;
    int by_pair;
    struct weft_error err;
    struct weft_channel_model model = {0};
    struct weft_verify_result r;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOp:verify", &handle, &text, &by_pair) ||
        PyBytes_AsStringAndSize(text, &transport, NULL) != 0)
        return NULL;
    const struct weft_schedule *s = wf_py_as_schedule(handle);
    if (s == NULL)
        return NULL;
    model.by_pair = by_pair;
    if (wf_channel_depth_parse(transport, "transport", &model.depth, &err) != WEFT_OK)
        return wf_py_fail(&err);
    enum weft_status st;
    Py_BEGIN_ALLOW_THREADS;
    st = weft_verify(s, &model, &r, &err);
    Py_END_ALLOW_THREADS;
    if (st != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *result = make_result(s, &model, &r);
    weft_verify_result_release(&r);
    return result;
}

/* A schedule and what PyTorch does with it. */
struct torch_checked {
    const struct weft_schedule *schedule;
    struct weft_torch_report report;
};

/* Returns (severity, text, rank or None, position or None, cell or None). */
static PyObject *make_torch_finding(const void *ctx, size_t i)
{
    const struct torch_checked *c = ctx;
    const struct weft_torch_finding *f = &c->report.at[i];
    const char *severity = wf_torch_severity_name(f->severity);
    char cell[WEFT_ACTION_TEXT_MAX] = "";
    if (!f->has_place)
        return Py_BuildValue("(ssOOO)", severity, f->text, Py_None, Py_None, Py_None);
    struct weft_action_span row = weft_schedule_rank(c->schedule, f->place.rank);
    if (f->place.position < row.len)
        weft_action_print(row.at[f->place.position], cell);
    return Py_BuildValue("(ssInz)", severity, f->text, f->place.rank,
                         (Py_ssize_t)f->place.position, cell[0] != '\0' ? cell : NULL);
}

/* torch_check(schedule): what PyTorch refuses, runs with wrong results, or does otherwise than
 * users expect. */
static PyObject *check_torch(PyObject *module, PyObject *handle)
{
    struct torch_checked c = {.schedule = wf_py_as_schedule(handle)};
    (void)module;
    if (c.schedule == NULL)
        return NULL;
    weft_torch_check(c.schedule, &c.report);
    return wf_py_list(c.report.n, make_torch_finding, &c);
}

/* -- tables -------------------------------------------------------------------------------- */

static PyObject *make_generator(const void *all, size_t i)
{
    const struct weft_generator *g = &((const struct weft_generator *)all)[i];
    return Py_BuildValue("(sssII)", g->name, g->help, g->limits, g->default_chunks, g->flags);
}

/* generators(): a list of (name, help, limits, default chunks, flags). */
static PyObject *list_generators(PyObject *module, PyObject *unused)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    (void)module, (void)unused;
    return wf_py_list(n, make_generator, all);
}

static PyObject *make_model(const void *all, size_t i)
{
    const struct weft_preset *p = &((const struct weft_preset *)all)[i];
    return Py_BuildValue("(ss)", p->name, p->help);
}

/* models(): a list of (name, help). */
static PyObject *list_models(PyObject *module, PyObject *unused)
{
    size_t n;
    const struct weft_preset *all = weft_presets(&n);
    (void)module, (void)unused;
    return wf_py_list(n, make_model, all);
}

static PyObject *make_kind(const void *unused, size_t i)
{
    (void)unused;
    return PyUnicode_FromString(weft_act_name((unsigned)i));
}

/* action_kinds(): the name of each kind of action. */
static PyObject *list_kinds(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return wf_py_list(WEFT_N_ACT_KINDS, make_kind, NULL);
}

/* version(): the version and the build. */
static PyObject *get_version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return Py_BuildValue("(ss)", weft_version(), weft_build_info());
}

PyMethodDef wf_py_schedule_methods[] = {
    {"parse", parse, METH_VARARGS, NULL},
    {"schedule_text", print, METH_VARARGS, NULL},
    {"schedule_row", get_row, METH_VARARGS, NULL},
    {"schedule_info", get_info, METH_O, NULL},
    {"lowerings", list_lowerings, METH_NOARGS, NULL},
    {"lower", lower, METH_VARARGS, NULL},
    {"verify", verify, METH_VARARGS, NULL},
    {"torch_check", check_torch, METH_O, NULL},
    {"generators", list_generators, METH_NOARGS, NULL},
    {"models", list_models, METH_NOARGS, NULL},
    {"action_kinds", list_kinds, METH_NOARGS, NULL},
    {"version", get_version, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
