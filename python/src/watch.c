/* Long calls: the interpreter lock, progress and interrupts. */
#include "base/clock.h"
#include "ext.h"

#define REPORT_NS 50000000

bool wf_py_watch_init(struct wf_py_watch *w, PyObject *callback)
{
    *w = (struct wf_py_watch){.callback = callback == Py_None ? NULL : callback};
    if (w->callback == NULL || PyCallable_Check(w->callback))
        return true;
    PyErr_SetString(PyExc_TypeError, "progress: expected a function or None");
    return false;
}

void wf_py_watch_begin(struct wf_py_watch *w)
{
    w->saved = PyEval_SaveThread();
}

void wf_py_watch_end(struct wf_py_watch *w)
{
    PyEval_RestoreThread(w->saved);
    w->saved = NULL;
}

bool wf_py_watch_is_due(struct wf_py_watch *w)
{
    int64_t now = wf_clock_ns();
    if (w->last_ns != 0 && now - w->last_ns < REPORT_NS)
        return false;
    w->last_ns = now;
    return true;
}

/* Calls the callback.  Returns false if it raised an exception or returned False. */
static bool call_back(PyObject *callback, PyObject *report)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(callback, report, NULL);
    bool stop = answer == NULL || answer == Py_False;
    Py_XDECREF(answer);
    return !stop;
}

bool wf_py_watch_report(struct wf_py_watch *w, const char *format, ...)
{
    bool go_on = true;
    va_list values;
    va_start(values, format);
    wf_py_watch_end(w);
    if (w->callback != NULL) {
        PyObject *report = Py_VaBuildValue(format, values);
        go_on = report != NULL && call_back(w->callback, report);
        Py_XDECREF(report);
    }
    va_end(values);
    if (PyErr_Occurred() == NULL && PyErr_CheckSignals() != 0)
        go_on = false;

    /* An interrupt ends the call with its result; every other exception replaces the result. */
    if (PyErr_Occurred() != NULL) {
        go_on = false;
        w->interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
        w->failed = !w->interrupted;
        if (w->interrupted)
            PyErr_Clear();
    }
    wf_py_watch_begin(w);
    return go_on;
}

PyObject *wf_py_watch_fail(const struct wf_py_watch *w, const struct weft_error *err)
{
    if (w->failed)
        return NULL;
    if (!w->interrupted)
        return wf_py_fail(err);
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return NULL;
}
