/* Converts values between Python and C, and errors to exceptions. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/values.h"
#include "ext.h"

/* -- from Python --------------------------------------------------------------------------- */

/* Returns the borrowed entry of a key, or NULL.  *ok is false after an exception. */
static PyObject *find(PyObject *dict, const char *key, bool *ok)
{
    PyObject *name = PyUnicode_FromString(key);
    PyObject *value = name == NULL ? NULL : PyDict_GetItemWithError(dict, name);
    Py_XDECREF(name);
    *ok = PyErr_Occurred() == NULL;
    return value == Py_None ? NULL : value;
}

bool wf_py_get_u64(PyObject *dict, const char *key, uint64_t *out)
{
    bool ok;
    PyObject *value = find(dict, key, &ok);
    if (value == NULL)
        return ok;
    unsigned long long n = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred() != NULL)
        return false;
    *out = n;
    return true;
}

bool wf_py_get_size(PyObject *dict, const char *key, size_t *out)
{
    uint64_t n = *out;
    if (!wf_py_get_u64(dict, key, &n))
        return false;
    *out = (size_t)n;
    return true;
}

bool wf_py_get_u32(PyObject *dict, const char *key, uint32_t *out)
{
    uint64_t n = *out;
    if (!wf_py_get_u64(dict, key, &n))
        return false;
    if (n > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s: value out of range (maximum 2^32-1)", key);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

bool wf_py_get_double(PyObject *dict, const char *key, double *out)
{
    bool ok;
    PyObject *value = find(dict, key, &ok);
    if (value == NULL)
        return ok;
    double x = PyFloat_AsDouble(value);
    if (PyErr_Occurred() != NULL)
        return false;
    *out = x;
    return true;
}

bool wf_py_get_bool(PyObject *dict, const char *key, bool *out)
{
    bool ok;
    PyObject *value = find(dict, key, &ok);
    if (value == NULL)
        return ok;
    int truth = PyObject_IsTrue(value);
    if (truth < 0)
        return false;
    *out = truth;
    return true;
}

bool wf_py_get_text(PyObject *dict, const char *key, const char **out)
{
    bool ok;
    char *text;
    PyObject *value = find(dict, key, &ok);
    if (value == NULL)
        return ok;
    if (PyBytes_AsStringAndSize(value, &text, NULL) != 0)
        return false;
    *out = text;
    return true;
}

bool wf_py_get_values(PyObject *dict, const char *key, struct weft_values *out)
{
    bool ok;
    PyObject *list = find(dict, key, &ok);
    if (list == NULL)
        return ok;
    Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;
    if (n < 0) {
        PyErr_Format(PyExc_TypeError, "%s: expected a list", key);
        return false;
    }
    if (n == 0)
        return true;
    double *at = malloc(sizeof *at * (size_t)n);
    if (at == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n && PyErr_Occurred() == NULL; i++) {
        PyObject *item = PyList_GetItem(list, i); /* NULL if a conversion changed the list */
        at[i] = item == NULL ? 0 : PyFloat_AsDouble(item);
    }
    if (PyErr_Occurred() != NULL) {
        free(at);
        return false;
    }
    *out = (struct weft_values){at, (size_t)n};
    return true;
}

/* Converts a number of bytes.  Returns false with an exception if it is out of range. */
static bool to_bytes(double value, const char *key, size_t *out)
{
    if (!(value >= 0 && value <= 1e18)) {
        PyErr_Format(PyExc_OverflowError, "%s: bytes are out of range (expected 0 to 1e18)",
                     key);
        return false;
    }
    *out = (size_t)value;
    return true;
}

bool wf_py_get_item(PyObject *dict, const char *key, struct weft_item *out)
{
    struct weft_values v = {0};
    if (!wf_py_get_values(dict, key, &v))
        return false;
    if (v.n == 0)
        return true;
    bool ok = v.n == 5;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "%s: expected five values", key);
    if (ok) {
        out->f = v.at[0];
        out->i = v.at[1];
        out->w = v.at[2];
        ok = to_bytes(v.at[3], key, &out->state_bytes) &&
             to_bytes(v.at[4], key, &out->act_bytes);
    }
    wf_values_release(&v);
    return ok;
}

bool wf_py_get_choice(PyObject *dict, const char *key, const char *const *words, size_t n,
                      unsigned *out)
{
    const char *text = NULL;
    if (!wf_py_get_text(dict, key, &text))
        return false;
    if (text == NULL)
        return true;
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = (unsigned)i;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "%s: '%.40s' is not a valid choice", key, text);
    return false;
}

/* -- to Python ----------------------------------------------------------------------------- */

PyObject *wf_py_list(size_t n, PyObject *(*make)(const void *ctx, size_t i), const void *ctx)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = make(ctx, i);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *make_double(const void *ctx, size_t i)
{
    return PyFloat_FromDouble(((const double *)ctx)[i]);
}

static PyObject *make_float(const void *ctx, size_t i)
{
    return PyFloat_FromDouble((double)((const float *)ctx)[i]);
}

static PyObject *make_size(const void *ctx, size_t i)
{
    return PyLong_FromSize_t(((const size_t *)ctx)[i]);
}

static PyObject *make_u32(const void *ctx, size_t i)
{
    return PyLong_FromUnsignedLong(((const uint32_t *)ctx)[i]);
}

PyObject *wf_py_doubles(const double *at, size_t n)
{
    return wf_py_list(n, make_double, at);
}

PyObject *wf_py_floats(const float *at, size_t n)
{
    return wf_py_list(n, make_float, at);
}

PyObject *wf_py_sizes(const size_t *at, size_t n)
{
    return wf_py_list(n, make_size, at);
}

PyObject *wf_py_u32s(const uint32_t *at, size_t n)
{
    return wf_py_list(n, make_u32, at);
}

PyObject *wf_py_values(struct weft_values v)
{
    return wf_py_doubles(v.at, v.n);
}

PyObject *wf_py_bool(bool value)
{
    return PyBool_FromLong(value);
}

bool wf_py_put(PyObject *dict, const char *key, PyObject *value)
{
    if (value == NULL)
        return false;
    int failed = PyDict_SetItemString(dict, key, value);
    Py_DECREF(value);
    return failed == 0;
}

/* -- errors -------------------------------------------------------------------------------- */

static const char *status_name(enum weft_status status)
{
    static const char *const names[] = {
#define STATUS_NAME(name, code, text) #name,
        WEFT_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    };
    return names[status];
}

PyObject *wf_py_fail(const struct weft_error *err)
{
    if (err->status == WEFT_NOMEM) {
        PyErr_SetString(PyExc_MemoryError, err->msg);
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("weft._errors");
    /* A message may contain part of a file, so it may be invalid UTF-8. */
    PyObject *text = PyUnicode_DecodeUTF8(err->msg, (Py_ssize_t)strlen(err->msg), "replace");
    PyObject *error = NULL;
    if (module != NULL && text != NULL)
        error =
            PyObject_CallMethod(module, "from_status", "sO", status_name(err->status), text);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(module);
    Py_XDECREF(text);
    Py_XDECREF(error);
    return NULL;
}

/* -- handles ------------------------------------------------------------------------------- */

static const char schedule_tag[] = "weft.schedule", plan_tag[] = "weft.plan",
                  trace_tag[] = "weft.trace";

static void free_schedule(PyObject *capsule)
{
    weft_schedule_free(PyCapsule_GetPointer(capsule, schedule_tag));
}

static void free_plan(PyObject *capsule)
{
    struct wf_plan *p = PyCapsule_GetPointer(capsule, plan_tag);
    wf_plan_release(p);
    free(p);
}

static void free_trace(PyObject *capsule)
{
    struct weft_trace *t = PyCapsule_GetPointer(capsule, trace_tag);
    weft_trace_release(t);
    free(t);
}

PyObject *wf_py_schedule(struct weft_schedule *s)
{
    PyObject *capsule = PyCapsule_New(s, schedule_tag, free_schedule);
    if (capsule == NULL)
        weft_schedule_free(s);
    return capsule;
}

PyObject *wf_py_plan(const struct wf_plan *p)
{
    struct wf_plan *copy = malloc(sizeof *copy), whole = *p;
    PyObject *capsule = NULL;
    if (copy == NULL)
        PyErr_NoMemory();
    else
        capsule = PyCapsule_New(copy, plan_tag, free_plan);
    if (capsule == NULL) {
        free(copy);
        wf_plan_release(&whole);
        return NULL;
    }
    *copy = whole;
    return capsule;
}

PyObject *wf_py_trace(const struct weft_trace *t)
{
    struct weft_trace *copy = malloc(sizeof *copy), whole = *t;
    PyObject *capsule = NULL;
    if (copy == NULL)
        PyErr_NoMemory();
    else
        capsule = PyCapsule_New(copy, trace_tag, free_trace);
    if (capsule == NULL) {
        free(copy);
        weft_trace_release(&whole);
        return NULL;
    }
    *copy = whole;
    return capsule;
}

static void *get_pointer(PyObject *capsule, const char *tag)
{
    if (PyCapsule_IsValid(capsule, tag))
        return PyCapsule_GetPointer(capsule, tag);
    PyErr_Format(PyExc_TypeError, "expected a handle of type %s", tag);
    return NULL;
}

const struct wf_plan *wf_py_as_plan(PyObject *capsule)
{
    return get_pointer(capsule, plan_tag);
}

const struct weft_trace *wf_py_as_trace(PyObject *capsule)
{
    return get_pointer(capsule, trace_tag);
}

const struct weft_schedule *wf_py_as_schedule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, plan_tag))
        return wf_py_as_plan(capsule)->schedule;
    return get_pointer(capsule, schedule_tag);
}
