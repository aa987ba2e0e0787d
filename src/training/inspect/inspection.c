/* Reads a path of any kind. */
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "planning/planner/trace_source.h"
#include "training/ckpt/safetensors.h"
#include "training/inspect/inspect.h"

static enum weft_status unknown(const char *path, struct weft_error *err)
{
    if (wf_is_directory(path))
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.200s: not a model (config.json), checkpoint (manifest.json), run "
                         "(config.yaml, metrics.jsonl) or directory of token shards (*.bin)",
                         path);
    return WEFT_FAIL(err, WEFT_DATA,
                     "%.200s: unknown kind of file (expected safetensors, token shards, a "
                     "schedule, a trace, metrics, settings or a flight record)",
                     path);
}

static enum weft_status inspect_trace(const char *path, wf_input_fn read,
                                      struct wf_trace_info *out, struct weft_error *err)
{
    struct wf_trace_info v = {.costs = {.n_stages = 0}};
    WEFT_TRY(wf_trace_read_measured(path, read, &v.trace, err));
    enum weft_status st = weft_cost_spread_init(&v.costs, &v.trace, err);
    if (st == WEFT_OK)
        *out = v;
    else
        weft_trace_release(&v.trace);
    return st;
}

enum weft_status wf_inspect(struct wf_inspection *out, const char *path, wf_input_fn read,
                            struct weft_error *err)
{
    enum wf_artifact kind;
    WEFT_TRY(wf_artifact_detect(path, &kind, err));
    /* There is no summary of a model file of llm.c.  The name *.bin suggests a shard, so that the
     * reader of shards reports the difference. */
    if (kind == WF_ARTIFACT_LLMC && wf_path_ends_in(path, ".bin"))
        kind = WF_ARTIFACT_SHARDS;

    *out = (struct wf_inspection){.kind = kind};
    switch (kind) {
    case WF_ARTIFACT_MODEL:
        return wf_model_inspect(&out->model, path, err);
    case WF_ARTIFACT_CHECKPOINT:
        return wf_checkpoint_inspect(&out->checkpoint, path, err);
    case WF_ARTIFACT_RUN:
        return wf_run_inspect(&out->run, path, err);
    case WF_ARTIFACT_SHARDS:
        return wf_shards_inspect(path, &out->shards, err);
    case WF_ARTIFACT_SAFETENSORS:
        return wf_safetensors_open(path, &out->safetensors, err);
    case WF_ARTIFACT_FLIGHT:
        return wf_flights_read_one(path, &out->flight, err);
    case WF_ARTIFACT_TRACE:
        return inspect_trace(path, read, &out->trace, err);
    case WF_ARTIFACT_METRICS:
        return wf_metrics_inspect(path, &out->metrics, err);
    case WF_ARTIFACT_SETTINGS:
        return wf_settings_inspect(path, &out->settings, err);
    case WF_ARTIFACT_SCHEDULE:
        return wf_schedule_inspect(path, &out->schedule, err);
    case WF_ARTIFACT_LLMC:
    case WF_ARTIFACT_UNKNOWN:
        break;
    }
    return unknown(path, err);
}

void wf_inspection_release(struct wf_inspection *v)
{
    switch (v->kind) {
    case WF_ARTIFACT_MODEL:
        wf_model_info_release(&v->model);
        break;
    case WF_ARTIFACT_CHECKPOINT:
        wf_checkpoint_info_release(&v->checkpoint);
        break;
    case WF_ARTIFACT_RUN:
        wf_run_info_release(&v->run);
        break;
    case WF_ARTIFACT_SAFETENSORS:
        wf_safetensors_free(v->safetensors);
        break;
    case WF_ARTIFACT_TRACE:
        weft_cost_spread_release(&v->trace.costs);
        weft_trace_release(&v->trace.trace);
        break;
    case WF_ARTIFACT_SETTINGS:
        wf_settings_release(wf_train_setting_list(), &v->settings);
        break;
    case WF_ARTIFACT_SCHEDULE:
        weft_schedule_free(v->schedule);
        break;
    case WF_ARTIFACT_SHARDS:
    case WF_ARTIFACT_FLIGHT:
    case WF_ARTIFACT_METRICS:
    case WF_ARTIFACT_LLMC:
    case WF_ARTIFACT_UNKNOWN:
        break;
    }
}

uint64_t wf_safetensors_n_elements(const struct wf_safetensors *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < wf_safetensors_count(s);
         i++) /* cannot overflow: all are in the file */
        n += wf_safetensors_at(s, i)->n;
    return n;
}

enum weft_status wf_artifact_check_hash(const char *path, struct weft_error *err)
{
    enum wf_artifact kind;
    if (access(path, F_OK) != 0 || wf_is_directory(path))
        return WEFT_OK;
    WEFT_TRY(wf_artifact_detect(path, &kind, err));
    if (kind == WF_ARTIFACT_LLMC)
        return WEFT_OK;
    return WEFT_FAIL(
        err, WEFT_USAGE,
        "%.200s is a file; give the directory of a model, a checkpoint or a run, or "
        "a model file of llm.c",
        path);
}
