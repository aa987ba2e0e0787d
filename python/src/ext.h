/* What the files of the extension module share: values from Python, values to Python, errors,
 * and handles.
 *
 * The module has no types of its own.  Schedules, plans and traces are capsules, which the
 * Python files of the package wrap.  Texts are bytes and options are dicts, both made by these
 * files, so the functions here check types but give no advice.  Every reader returns false with
 * a Python exception set if a value has the wrong type. */
#ifndef PYTHON_EXT_H
#define PYTHON_EXT_H

#include <Python.h> /* Py_LIMITED_API is defined by the build */
#include <stdbool.h>
#include <stdint.h>

#include "planning/planner/plan.h"
#include "weft/plan.h"

/* -- values from a dict: a missing key leaves *out unchanged ------------------------------- */

bool wf_py_get_u32(PyObject *dict, const char *key, uint32_t *out);
bool wf_py_get_u64(PyObject *dict, const char *key, uint64_t *out);
bool wf_py_get_size(PyObject *dict, const char *key, size_t *out);
bool wf_py_get_double(PyObject *dict, const char *key, double *out);
bool wf_py_get_bool(PyObject *dict, const char *key, bool *out);

/* Reads bytes without a NUL.  *out is borrowed from the dict. */
bool wf_py_get_text(PyObject *dict, const char *key, const char **out);

/* Reads a list of floats.  The caller releases *out with wf_values_release(). */
bool wf_py_get_values(PyObject *dict, const char *key, struct weft_values *out);

/* Reads the costs of an item: a list of F, I, W, bytes of state, bytes of activations. */
bool wf_py_get_item(PyObject *dict, const char *key, struct weft_item *out);

/* Reads one of `n` words and stores its index. */
bool wf_py_get_choice(PyObject *dict, const char *key, const char *const *words, size_t n,
                      unsigned *out);

/* -- values to Python: each returns a new reference, or NULL with an exception ------------- */

/* Makes a list of `n` items.  `make` returns a new reference to item i of `ctx`. */
PyObject *wf_py_list(size_t n, PyObject *(*make)(const void *ctx, size_t i), const void *ctx);

PyObject *wf_py_doubles(const double *at, size_t n);
PyObject *wf_py_floats(const float *at, size_t n);
PyObject *wf_py_sizes(const size_t *at, size_t n);
PyObject *wf_py_u32s(const uint32_t *at, size_t n);
PyObject *wf_py_values(struct weft_values v);
PyObject *wf_py_bool(bool value);

/* Stores a value in a dict and releases the reference.  `value` may be NULL: an exception is
 * set then.  Returns false after a failure. */
bool wf_py_put(PyObject *dict, const char *key, PyObject *value);

/* -- errors -------------------------------------------------------------------------------- */

/* Raises the exception of an error (weft/_errors.py) and returns NULL. */
PyObject *wf_py_fail(const struct weft_error *err);

/* -- handles ------------------------------------------------------------------------------- */

/* Makes a capsule that owns its object.  If it fails, the object is freed. */
PyObject *wf_py_schedule(struct weft_schedule *s);
PyObject *wf_py_plan(const struct wf_plan *p);
PyObject *wf_py_trace(const struct weft_trace *t);

/* Returns the object of a capsule, borrowed; NULL with a TypeError for any other value.  A plan
 * is accepted as its schedule. */
const struct weft_schedule *wf_py_as_schedule(PyObject *capsule);
const struct wf_plan *wf_py_as_plan(PyObject *capsule);
const struct weft_trace *wf_py_as_trace(PyObject *capsule);

/* -- the planner's input ------------------------------------------------------------------- */

/* The input of a plan with the lists that it borrows.  Must not be moved. */
struct wf_py_input {
    struct wf_plan_input in;
    struct weft_cost cost;           /* owns its lists */
    struct weft_memory_cost memory;  /* owns its lists */
    struct weft_sim_options machine; /* owns its lists */
    struct weft_cluster cluster;
};

/* Reads the options of a plan, a simulation or a comparison.  The texts are borrowed from the
 * dict.  The caller releases *out, also after a failure. */
bool wf_py_input_init(struct wf_py_input *out, PyObject *dict);
void wf_py_input_release(struct wf_py_input *in);

/* Reads the costs of stages: the keys f, i, w, b, fb, hop, forward_hop, backward_hop,
 * first_backward_in_w and mem_f, mem_i, mem_w, mem_limit.  The caller releases the lists, also after a failure. */
bool wf_py_get_costs(PyObject *dict, struct weft_cost *cost, struct weft_memory_cost *memory);

/* -- long calls ---------------------------------------------------------------------------- */

/* The progress of a call that runs without the interpreter lock. */
struct wf_py_watch {
    PyObject *callback;   /* borrowed; NULL: none */
    PyThreadState *saved; /* set while the lock is released */
    int64_t last_ns;      /* time of the last report */
    bool interrupted;     /* a KeyboardInterrupt ended the call */
    bool failed;          /* an exception is set: the call ends and the result is dropped */
};

/* Makes a watch.  `callback` may be None.  Returns false with a TypeError for other values that
 * cannot be called. */
bool wf_py_watch_init(struct wf_py_watch *w, PyObject *callback);

/* Releases and takes the interpreter lock. */
void wf_py_watch_begin(struct wf_py_watch *w);
void wf_py_watch_end(struct wf_py_watch *w);

/* Returns true at most every 50 ms: a report is due. */
bool wf_py_watch_is_due(struct wf_py_watch *w);

/* Calls the callback with the arguments of a format of Py_BuildValue() that makes a dict, and
 * handles signals.  Returns false if the call must end: after an interrupt, an exception, or if
 * the callback returned False. */
bool wf_py_watch_report(struct wf_py_watch *w, const char *format, ...);

/* Raises the error of a call that returned a status.  After an interrupt it raises
 * KeyboardInterrupt, because there is no result to return; after an exception of the callback
 * that exception stays.  Returns NULL. */
PyObject *wf_py_watch_fail(const struct wf_py_watch *w, const struct weft_error *err);

/* -- the functions of the module ----------------------------------------------------------- */

extern PyMethodDef wf_py_schedule_methods[], wf_py_plan_methods[], wf_py_search_methods[],
    wf_py_trace_methods[];

#endif
