/* Prints the directory of a run. */
#include "base/error.h"
#include "cli/inspect.h"

static void print_run(const struct wf_run_info *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a run of weft train, %s\n", path,
            v->finished    ? "finished"
            : v->has_model ? "stopped before its last step; model/ has the weights"
                           : "not finished (there is no model/)");
    if (v->has_settings)
        wf_settings_line(&v->settings, out);
    if (v->has_metrics)
        wf_metrics_line(&v->metrics, out);
    if (v->schedule != NULL)
        wf_schedule_line(v->schedule, out);
    if (v->n_traces > 0)
        fprintf(out, "traces   %zu in trace/\n", v->n_traces);
    if (v->has_model)
        wf_model_line(wf_hf_model(v->model.hf), v->model.n_params, v->model.params.n, out);
    if (v->flights.n > 0)
        wf_flights_print(&v->flights, v->finished, out);
}

static void print_run_json(const struct wf_run_info *v, FILE *out, const char *path)
{
    struct wf_json j;
    wf_inspect_begin(&j, out, path, "run");
    wf_json_bool(&j, "finished", v->finished);
    if (v->has_settings) {
        wf_json_begin(&j, "settings", '{');
        wf_settings_json(&v->settings, &j);
        wf_json_end(&j, '}');
    }
    if (v->has_metrics) {
        wf_json_begin(&j, "metrics", '{');
        wf_metrics_json(&v->metrics, &j);
        wf_json_end(&j, '}');
    }
    if (v->schedule != NULL) {
        wf_json_begin(&j, "schedule", '{');
        wf_schedule_json(v->schedule, &j);
        wf_json_end(&j, '}');
    }
    wf_json_uint(&j, "traces", v->n_traces);
    if (v->has_model) {
        wf_json_begin(&j, "model", '{');
        wf_model_json(wf_hf_model(v->model.hf), v->model.n_params, &j);
        wf_json_end(&j, '}');
    }
    wf_flights_json(&v->flights, v->finished, &j);
    wf_inspect_end(&j);
}

enum weft_status wf_inspect_run(const char *path, const struct wf_inspect *how,
                                struct weft_error *err)
{
    struct wf_run_info v;
    WEFT_TRY(wf_run_inspect(&v, path, err));
    if (how->json)
        print_run_json(&v, how->out, path);
    else
        print_run(&v, how->out, path);
    wf_run_info_release(&v);
    return WEFT_OK;
}
