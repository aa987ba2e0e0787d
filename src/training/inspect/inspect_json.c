/* Writes inspected files, directories and runs as JSON. */
#include "training/inspect/inspect.h"

#include "base/file.h"
#include "planning/planner/cost_report.h"
#include "training/ckpt/store.h"

/* -- parts of a run ------------------------------------------------------------------------ */

static void put_schedule(struct wf_json *j, const struct weft_schedule *s)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    wf_json_string(j, "name", weft_schedule_name(s));
    wf_json_uint(j, "ranks", place->n_ranks);
    wf_json_uint(j, "stages", place->n_stages);
    wf_json_string(j, "placement", weft_placement_name(weft_schedule_placement_kind(s)));
    wf_json_uint(j, "micros", place->n_micros);
    wf_json_uint(j, "actions", weft_schedule_n_actions(s));
    wf_json_bool(j, "lowered", weft_schedule_is_lowered(s));
}

static void put_settings(struct wf_json *j, const struct wf_train_settings *s)
{
    wf_json_uint(j, "pp", s->parallel.pp);
    wf_json_uint(j, "dp", s->parallel.dp);
    if (s->parallel.schedule != NULL)
        wf_json_string(j, "schedule", s->parallel.schedule);
    wf_json_uint(j, "micros", s->parallel.micros);
    wf_json_uint(j, "steps", s->train.steps);
    wf_json_uint(j, "batch", s->data.batch);
    if (s->data.train != NULL)
        wf_json_string(j, "data", s->data.train);
}

static void put_metrics(struct wf_json *j, const struct wf_metrics_info *m)
{
    wf_json_uint(j, "lines", m->lines);
    wf_json_uint(j, "last_step", m->last_step);
    wf_json_number(j, "first_loss", m->first_loss);
    wf_json_number(j, "last_loss", m->last_loss);
    wf_json_uint(j, "restarts", m->restarts);
    wf_json_bool(j, "cut", m->truncated);
}

static void put_model(struct wf_json *j, const struct weft_model *m, uint64_t n_params)
{
    wf_json_string(j, "arch", weft_arch_name(m->arch));
    wf_json_uint(j, "layers", m->layers);
    wf_json_uint(j, "dim", m->dim);
    wf_json_uint(j, "heads", m->heads);
    wf_json_uint(j, "kv_heads", m->kv_heads);
    wf_json_uint(j, "ffn", m->ffn);
    wf_json_uint(j, "vocab", m->vocab);
    wf_json_uint(j, "ctx", m->ctx);
    wf_json_bool(j, "tied", m->tied);
    wf_json_uint(j, "residual_block_layers", m->residual_block_layers);
    wf_json_uint(j, "parameters", n_params);
}

/* -- flight records ------------------------------------------------------------------------ */

static void put_record(struct wf_json *j, const struct weft_flight *r, const char *state)
{
    wf_json_uint(j, "rank", r->rank);
    wf_json_string(j, "state", state);
    wf_json_string(j, "host", r->host);
    wf_json_number(j, "pid", (double)r->pid);
    wf_json_number(j, "last_sign", (double)r->alive_ns * 1e-9);
    wf_json_uint(j, "step", r->step);
    wf_json_string(j, "doing", r->doing);
    if (r->waits_for != UINT32_MAX)
        wf_json_uint(j, "waits_for", r->waits_for);
    if (r->error[0] != '\0')
        wf_json_string(j, "error", r->error);
}

static void put_flights(struct wf_json *j, const struct wf_flights *f, bool finished)
{
    static const char *const states[] = {"done", "failed", "running", "gone", "away"};
    wf_json_uint(j, "n_ranks", f->n_ranks);
    wf_json_begin(j, "ranks", '[');
    for (size_t i = 0; i < f->n; i++) {
        wf_json_begin(j, NULL, '{');
        put_record(j, &f->at[i], states[f->fates[i]]);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');

    if (finished || f->lost == SIZE_MAX)
        return;
    wf_json_uint(j, "lost", f->at[f->lost].rank);
    wf_json_begin(j, "lost_or", '[');
    for (size_t i = 0; i < f->n; i++)
        if (wf_flights_may_be_lost(f, i))
            wf_json_uint(j, NULL, f->at[i].rank);
    wf_json_end(j, ']');
}

/* -- tensors ------------------------------------------------------------------------------- */

static void put_shape(struct wf_json *j, const uint64_t *shape, uint32_t n_dims)
{
    wf_json_begin(j, "shape", '[');
    for (uint32_t i = 0; i < n_dims; i++)
        wf_json_uint(j, NULL, shape[i]);
    wf_json_end(j, ']');
}

static void put_tensor(struct wf_json *j, const char *name,
                       const struct wf_safetensors_tensor *t, const char *file)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "name", name);
    wf_json_string(j, "type", t->dtype);
    put_shape(j, t->shape, t->n_dims);
    if (file != NULL)
        wf_json_string(j, "file", file);
    wf_json_end(j, '}');
}

static void put_model_dir(struct wf_json *j, const struct wf_model_info *v)
{
    put_model(j, wf_hf_model(v->hf), v->n_params);
    wf_json_begin(j, "tensors", '[');
    for (size_t i = 0; i < v->params.n; i++) {
        struct wf_hf_location at = wf_model_info_locate(v, i);
        put_tensor(j, v->tensors[i].name, at.tensor,
                   wf_path_name(wf_safetensors_path(at.file)));
    }
    wf_json_end(j, ']');
}

static void put_safetensors(struct wf_json *j, const struct wf_safetensors *s)
{
    wf_json_uint(j, "elements", wf_safetensors_n_elements(s));
    wf_json_begin(j, "tensors", '[');
    for (size_t i = 0; i < wf_safetensors_count(s); i++)
        put_tensor(j, wf_safetensors_at(s, i)->name, wf_safetensors_at(s, i), NULL);
    wf_json_end(j, ']');
}

static void put_checkpoint(struct wf_json *j, const struct wf_checkpoint_info *v)
{
    wf_json_uint(j, "step", wf_ckpt_step(v->store));
    wf_json_string(j, "run", wf_ckpt_run(v->store));
    put_model(j, &v->model, v->n_params);
    wf_json_bool(j, "moments", v->has_moments);
    wf_json_begin(j, "tensors", '[');
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++) {
        const struct wf_ckpt_param *p = wf_ckpt_at(v->store, i);
        wf_json_begin(j, NULL, '{');
        wf_json_string(j, "name", p->name);
        put_shape(j, p->shape, p->n_dims);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

/* -- any path ------------------------------------------------------------------------------ */

static void put_shards(struct wf_json *j, const struct wf_shards_info *v)
{
    wf_json_uint(j, "files", v->n_files);
    wf_json_uint(j, "tokens", v->n_tokens);
    if (v->width != 0)
        wf_json_string(j, "type", v->width == 2 ? "uint16" : "uint32");
    if (v->largest >= 0)
        wf_json_uint(j, "largest", (uint64_t)v->largest);
}

static void put_trace(struct wf_json *j, const struct wf_trace_info *v)
{
    const struct weft_trace *t = &v->trace;
    wf_json_string(j, "name", t->name);
    wf_json_uint(j, "ranks", t->n_ranks);
    wf_json_uint(j, "stages", t->n_stages);
    wf_json_uint(j, "micros", t->n_micros);
    wf_json_uint(j, "events", t->n_events);
    wf_json_number(j, "makespan", t->makespan);
    wf_json_number(j, "unit_seconds", t->unit_seconds);
    wf_cost_spread_write_json(j, &v->costs);
}

static void put_run(struct wf_json *j, const struct wf_run_info *v)
{
    wf_json_bool(j, "finished", v->finished);
    if (v->has_settings) {
        wf_json_begin(j, "settings", '{');
        put_settings(j, &v->settings);
        wf_json_end(j, '}');
    }
    if (v->has_metrics) {
        wf_json_begin(j, "metrics", '{');
        put_metrics(j, &v->metrics);
        wf_json_end(j, '}');
    }
    if (v->schedule != NULL) {
        wf_json_begin(j, "schedule", '{');
        put_schedule(j, v->schedule);
        wf_json_end(j, '}');
    }
    wf_json_uint(j, "traces", v->n_traces);
    if (v->has_model) {
        wf_json_begin(j, "model", '{');
        put_model(j, wf_hf_model(v->model.hf), v->model.n_params);
        wf_json_end(j, '}');
    }
    put_flights(j, &v->flights, v->finished);
}

static void put_contents(struct wf_json *j, const struct wf_inspection *v)
{
    switch (v->kind) {
    case WF_ARTIFACT_MODEL:
        put_model_dir(j, &v->model);
        break;
    case WF_ARTIFACT_CHECKPOINT:
        put_checkpoint(j, &v->checkpoint);
        break;
    case WF_ARTIFACT_RUN:
        put_run(j, &v->run);
        break;
    case WF_ARTIFACT_SHARDS:
        put_shards(j, &v->shards);
        break;
    case WF_ARTIFACT_SAFETENSORS:
        put_safetensors(j, v->safetensors);
        break;
    case WF_ARTIFACT_FLIGHT:
        wf_json_uint(j, "n_ranks", v->flight.n_ranks);
        put_record(j, &v->flight, wf_flight_state_name(v->flight.state));
        break;
    case WF_ARTIFACT_TRACE:
        put_trace(j, &v->trace);
        break;
    case WF_ARTIFACT_METRICS:
        put_metrics(j, &v->metrics);
        break;
    case WF_ARTIFACT_SETTINGS:
        put_settings(j, &v->settings);
        break;
    case WF_ARTIFACT_SCHEDULE:
        put_schedule(j, v->schedule);
        break;
    case WF_ARTIFACT_LLMC:
    case WF_ARTIFACT_UNKNOWN:
        break;
    }
}

static void begin_path(struct wf_json *j, const char *path, const char *kind)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "path", path);
    wf_json_string(j, "kind", kind);
}

void wf_inspect_write_hash_json(struct wf_json *j, const char *path, const char *hash)
{
    begin_path(j, path, "model");
    wf_json_string(j, "hash", hash);
    wf_json_end(j, '}');
}

void wf_inspection_write_json(struct wf_json *j, const struct wf_inspection *v,
                              const char *path)
{
    static const char *const kinds[] = {
        [WF_ARTIFACT_MODEL] = "model",       [WF_ARTIFACT_CHECKPOINT] = "checkpoint",
        [WF_ARTIFACT_RUN] = "run",           [WF_ARTIFACT_SHARDS] = "tokens",
        [WF_ARTIFACT_FLIGHT] = "rank",       [WF_ARTIFACT_SAFETENSORS] = "safetensors",
        [WF_ARTIFACT_TRACE] = "trace",       [WF_ARTIFACT_METRICS] = "metrics",
        [WF_ARTIFACT_SETTINGS] = "settings", [WF_ARTIFACT_SCHEDULE] = "schedule",
    };
    begin_path(j, path, kinds[v->kind]);
    put_contents(j, v);
    wf_json_end(j, '}');
}
