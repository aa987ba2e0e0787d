/* Reads traces from files and runs. */
#include "training/run/trace_list.h"

#include <stdlib.h>

#include "base/error.h"
#include "training/run/rundir_trace.h"

static enum weft_status add_run(struct wf_trace_set *set, const char *dir,
                                struct weft_error *err)
{
    struct weft_trace out[2];
    const struct weft_memory_cost activations = {0}; /* one activation per forward */
    char *trace = NULL;
    WEFT_TRY(wf_rundir_find_trace(dir, &trace, NULL, err));
    enum weft_status st =
        wf_rundir_read_traces(dir, trace, &activations, &out[0], &out[1], err);
    free(trace);

    for (size_t i = 0; i < WEFT_LEN(out) && st == WEFT_OK; i++) {
        st = wf_trace_set_take(set, &out[i], err);
        for (size_t k = i; k < WEFT_LEN(out) && st != WEFT_OK; k++)
            weft_trace_release(&out[k]);
    }
    return st;
}

static bool have_mixed_units(const struct wf_trace_set *set)
{
    size_t n_real = 0;
    for (size_t i = 0; i < set->n; i++)
        n_real += set->at[i].unit_seconds > 0;
    return n_real > 0 && n_real < set->n;
}

enum weft_status wf_trace_list_init(struct wf_trace_list *out, const char *const *paths,
                                    size_t n, wf_input_fn read, const struct weft_cost *cost,
                                    const struct weft_memory_cost *memory,
                                    struct weft_error *err)
{
    const struct wf_trace_costs costs = {cost, memory};
    enum weft_status st = WEFT_OK;
    *out = (struct wf_trace_list){.set = {.read = read}};
    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        st = wf_is_directory(paths[i])
                 ? add_run(&out->set, paths[i], err)
                 : wf_trace_set_add_file(&out->set, paths[i], &costs, err);
    if (st == WEFT_OK)
        st = wf_trace_set_finish(&out->set, err);
    if (st != WEFT_OK)
        wf_trace_list_release(out);
    out->mixed_units = have_mixed_units(&out->set);
    return st;
}

void wf_trace_list_release(struct wf_trace_list *l)
{
    wf_trace_set_release(&l->set);
    *l = (struct wf_trace_list){.mixed_units = false};
}

enum weft_status wf_cost_read_measured(const char *path, wf_input_fn read,
                                       struct wf_cost_units *units, struct weft_cost *cost,
                                       struct weft_error *err)
{
    char *newest = NULL;
    if (wf_is_directory(path))
        WEFT_TRY(wf_rundir_find_trace(path, &newest, NULL, err));
    enum weft_status st =
        wf_cost_read_trace(newest != NULL ? newest : path, read, units, cost, err);
    free(newest);
    return st;
}
