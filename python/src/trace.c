/* Functions of traces: text form, events, costs, comparison and pictures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ext.h"

/* -- creation ------------------------------------------------------------------------------ */

/* trace_parse(text, source): reads the text form. */
static PyObject *parse(PyObject *module, PyObject *args)
{
    PyObject *text, *source;
    char *bytes, *name;
    Py_ssize_t len;
    struct weft_error err;
    struct weft_trace t;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:trace_parse", &text, &source) ||
        PyBytes_AsStringAndSize(text, &bytes, &len) != 0 ||
        PyBytes_AsStringAndSize(source, &name, NULL) != 0)
        return NULL;
    if (weft_trace_parse(bytes, (size_t)len, name, &t, &err) != WEFT_OK)
        return wf_py_fail(&err);
    return wf_py_trace(&t);
}

/* Adds one profile: (text, source, rank or None). */
static bool add_profile(struct weft_kineto *k, PyObject *profile)
{
    PyObject *text, *source, *rank;
    char *bytes, *name;
    Py_ssize_t len;
    unsigned long number = WEFT_NO_RANK;
    struct weft_error err;
    if (!PyTuple_Check(profile)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of tuples");
        return false;
    }
    if (!PyArg_ParseTuple(profile, "OOO:kineto_trace", &text, &source, &rank) ||
        PyBytes_AsStringAndSize(text, &bytes, &len) != 0 ||
        PyBytes_AsStringAndSize(source, &name, NULL) != 0)
        return false;
    if (rank != Py_None) {
        number = PyLong_AsUnsignedLong(rank);
        if (PyErr_Occurred())
            return false;
        if (number >= WEFT_NO_RANK) {
            PyErr_SetString(PyExc_ValueError, "the rank is out of range");
            return false;
        }
    }
    enum weft_status st;
    Py_BEGIN_ALLOW_THREADS;
    st = weft_kineto_add(k, bytes, (size_t)len, name, (uint32_t)number, &err);
    Py_END_ALLOW_THREADS;
    if (st != WEFT_OK)
        wf_py_fail(&err);
    return st == WEFT_OK;
}

/* Converts whole nanoseconds to milliseconds. */
static void use_milliseconds(struct weft_trace *t)
{
    for (size_t i = 0; i < t->n_events; i++) {
        t->events[i].start /= 1e6;
        t->events[i].length /= 1e6;
    }
    t->makespan /= 1e6;
    t->unit_seconds = 1e-3;
}

/* kineto_trace(profiles, step): makes a trace of profiles of PyTorch.  `profiles` is an iterable,
 * so only one text has to be in memory. */
static PyObject *read_kineto(PyObject *module, PyObject *args)
{
    PyObject *profiles, *profile, *result = NULL;
    long long step;
    struct weft_kineto *k = NULL;
    struct weft_trace t;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OL:kineto_trace", &profiles, &step))
        return NULL;
    PyObject *each = PyObject_GetIter(profiles);
    if (each == NULL)
        return NULL;
    if (weft_kineto_new(&k, &err) != WEFT_OK)
        wf_py_fail(&err);
    while (!PyErr_Occurred() && (profile = PyIter_Next(each)) != NULL) {
        add_profile(k, profile);
        Py_DECREF(profile);
    }
    Py_DECREF(each);
    if (!PyErr_Occurred()) {
        if (weft_kineto_trace(k, step, &t, &err) == WEFT_OK) {
            use_milliseconds(&t);
            result = wf_py_trace(&t);
        } else {
            wf_py_fail(&err);
        }
    }
    weft_kineto_free(k);
    return result;
}

/* trace_text(trace): prints the text form. */
static PyObject *print(PyObject *module, PyObject *handle)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_error err;
    (void)module;
    const struct weft_trace *t = wf_py_as_trace(handle);
    if (t == NULL)
        return NULL;
    if (weft_trace_write(t, &text, &len, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace");
    free(text);
    return result;
}

/* -- contents ------------------------------------------------------------------------------ */

/* trace_info(trace): sizes, unit and metrics. */
static PyObject *get_info(PyObject *module, PyObject *handle)
{
    struct weft_trace_summary s;
    struct weft_error err;
    (void)module;
    const struct weft_trace *t = wf_py_as_trace(handle);
    if (t == NULL)
        return NULL;
    if (weft_trace_summary_init(&s, t, &err) != WEFT_OK)
        return wf_py_fail(&err);
    PyObject *d = Py_BuildValue(
        "{s:s,s:I,s:I,s:I,s:d,s:d,s:d,s:d,s:d,s:n,s:n,s:K,s:N,s:N}", "name", t->name, "ranks",
        t->n_ranks, "stages", t->n_stages, "micros", t->n_micros, "unit_seconds",
        t->unit_seconds, "makespan", s.makespan, "span", s.span, "bubble", s.bubble,
        "bubble_span", s.bubble_span, "n_compute", (Py_ssize_t)s.n_compute, "n_messages",
        (Py_ssize_t)s.n_messages, "bytes", (unsigned long long)s.bytes, "busy",
        wf_py_doubles(s.busy, s.n_ranks), "idle", wf_py_doubles(s.idle, s.n_ranks));
    weft_trace_summary_release(&s);
    return d;
}

static PyObject *make_event(const void *events, size_t i)
{
    const struct weft_trace_event *e = &((const struct weft_trace_event *)events)[i];
    char cell[2 * WEFT_ACTION_TEXT_MAX + 16], second[WEFT_ACTION_TEXT_MAX];
    weft_action_print(e->action, cell);
    if (e->action.paired) {
        char first[WEFT_ACTION_TEXT_MAX];
        weft_action_print(e->action, first);
        weft_action_print(e->partner, second);
        snprintf(cell, sizeof cell, "(%s;%s)OVERLAP_F_B", first, second);
    }
    return Py_BuildValue("(dIssdKI)", e->start, e->rank, weft_lane_name(e->lane), cell,
                         e->length, (unsigned long long)e->bytes, e->peer);
}

/* trace_events(trace): a list of (start, rank, lane, cell, length, bytes, peer). */
static PyObject *list_events(PyObject *module, PyObject *handle)
{
    (void)module;
    const struct weft_trace *t = wf_py_as_trace(handle);
    return t == NULL ? NULL : wf_py_list(t->n_events, make_event, t->events);
}

/* Returns (number of events, mean, min, median, max). */
static PyObject *make_spread(const void *spreads, size_t i)
{
    const struct weft_spread *s = &((const struct weft_spread *)spreads)[i];
    return Py_BuildValue("(ndddd)", (Py_ssize_t)s->n, s->mean, s->min, s->median, s->max);
}

/* Returns the distributions of each kind, by stage; the hop has one for all. */
static PyObject *list_spreads(const struct weft_cost_spread *s)
{
    size_t n = s->n_stages;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:N}", "F", wf_py_list(n, make_spread, s->f), "I",
        wf_py_list(n, make_spread, s->i), "W", wf_py_list(n, make_spread, s->w), "B",
        wf_py_list(n, make_spread, s->b), "FB", wf_py_list(n, make_spread, s->fb), "C",
        wf_py_list(1, make_spread, &s->hop));
}

/* trace_costs(trace): mean times of each stage and of a hop, and their distributions. */
static PyObject *get_costs(PyObject *module, PyObject *handle)
{
    struct weft_measured_cost c;
    struct weft_cost_spread spread;
    struct weft_error err;
    (void)module;
    const struct weft_trace *t = wf_py_as_trace(handle);
    if (t == NULL)
        return NULL;
    if (weft_measured_cost_init(&c, t, &err) != WEFT_OK)
        return wf_py_fail(&err);
    if (weft_cost_spread_init(&spread, t, &err) != WEFT_OK) {
        weft_measured_cost_release(&c);
        return wf_py_fail(&err);
    }
    size_t n = c.n_stages;
    PyObject *d = Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:d,s:N}", "f", wf_py_doubles(c.f, n),
                                "i", wf_py_doubles(c.i, n), "w", wf_py_doubles(c.w, n), "b",
                                wf_py_doubles(c.b, n), "fb", wf_py_doubles(c.fb, n), "hop",
                                spread.hop.mean, "spread", list_spreads(&spread));
    weft_cost_spread_release(&spread);
    weft_measured_cost_release(&c);
    return d;
}

/* trace_compare(planned, measured): makespans and differences of matching events. */
static PyObject *compare(PyObject *module, PyObject *args)
{
    PyObject *planned, *measured;
    struct weft_trace_comparison c;
    struct weft_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:trace_compare", &planned, &measured))
        return NULL;
    const struct weft_trace *p = wf_py_as_trace(planned);
    const struct weft_trace *m = p == NULL ? NULL : wf_py_as_trace(measured);
    if (m == NULL)
        return NULL;
    if (weft_trace_comparison_init(&c, p, m, &err) != WEFT_OK)
        return wf_py_fail(&err);
    const struct weft_trace_delta *d = &c.total;
    PyObject *result = Py_BuildValue(
        "{s:d,s:d,s:n,s:n,s:n,s:d,s:d,s:d,s:d}", "planned", c.planned, "measured", c.measured,
        "matched", (Py_ssize_t)d->n_matched, "planned_only", (Py_ssize_t)d->n_planned_only,
        "measured_only", (Py_ssize_t)d->n_measured_only, "planned_busy", d->planned,
        "measured_busy", d->measured, "max_start_diff", d->max_start_diff, "max_length_diff",
        d->max_length_diff);
    weft_trace_comparison_release(&c);
    return result;
}

/* -- pictures ------------------------------------------------------------------------------ */

struct picture {
    struct weft_draw_options options;
    enum weft_draw_format format;
    struct weft_trace *traces; /* owned array of borrowed traces */
    size_t n;
};

static bool read_traces(PyObject *list, struct picture *p)
{
    Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : 0;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "expected a list of traces");
        return false;
    }
    p->traces = calloc((size_t)n, sizeof *p->traces);
    if (p->traces == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyList_GetItem(list, i);
        const struct weft_trace *t = item == NULL ? NULL : wf_py_as_trace(item);
        if (t == NULL)
            return false;
        p->traces[i] = *t;
    }
    p->n = (size_t)n;
    return true;
}

static bool read_options(PyObject *dict, struct picture *p)
{
    const char *format = "svg";
    uint32_t columns = 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "expected a dict");
        return false;
    }
    if (!wf_py_get_text(dict, "format", &format) ||
        !wf_py_get_text(dict, "title", &p->options.title) ||
        !wf_py_get_u32(dict, "width", &p->options.width) ||
        !wf_py_get_u32(dict, "height", &p->options.height) ||
        !wf_py_get_bool(dict, "lanes", &p->options.lanes) ||
        !wf_py_get_double(dict, "unit_seconds", &p->options.unit_seconds) ||
        !wf_py_get_u32(dict, "columns", &columns) ||
        !wf_py_get_bool(dict, "colour", &p->options.style.colour))
        return false;
    p->options.style.width = columns;
    p->options.style.utf8 = true;
    if (weft_draw_format_find(format, &p->format))
        return true;
    PyErr_SetString(PyExc_ValueError, "unknown format of a picture");
    return false;
}

/* Draws into memory.  The caller frees *text. */
static enum weft_status draw_text(const struct picture *p, char **text, size_t *len,
                                  struct weft_error *err)
{
    FILE *out = open_memstream(text, len);
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a picture");
    enum weft_status st = weft_draw(out, p->format, p->traces, p->n, &p->options, err);
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a picture");
    return st;
}

/* draw(traces, options): draws traces one above the other. */
static PyObject *draw(PyObject *module, PyObject *args)
{
    PyObject *list, *dict, *result = NULL;
    struct picture p = {.format = WEFT_DRAW_FORMAT_SVG};
    struct weft_error err;
    char *text = NULL;
    size_t len = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:draw", &list, &dict))
        return NULL;
    if (read_traces(list, &p) && read_options(dict, &p)) {
        enum weft_status st;
        Py_BEGIN_ALLOW_THREADS;
        st = draw_text(&p, &text, &len, &err);
        Py_END_ALLOW_THREADS;
        result = st == WEFT_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace")
                               : wf_py_fail(&err);
        free(text);
    }
    free(p.traces);
    return result;
}

PyMethodDef wf_py_trace_methods[] = {
    {"trace_parse", parse, METH_VARARGS, NULL},
    {"kineto_trace", read_kineto, METH_VARARGS, NULL},
    {"trace_text", print, METH_O, NULL},
    {"trace_info", get_info, METH_O, NULL},
    {"trace_events", list_events, METH_O, NULL},
    {"trace_costs", get_costs, METH_O, NULL},
    {"trace_compare", compare, METH_VARARGS, NULL},
    {"draw", draw, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
