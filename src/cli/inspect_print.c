/* Prints what weft inspect reads (training/inspect/inspect.h) as text. */
#include "base/file.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "cli/inspect.h"
#include "planning/planner/cost_report.h"
#include "training/ckpt/store.h"

/* -- lines that runs share with other kinds -------------------------------------------------- */

static void print_schedule(const struct weft_schedule *s, FILE *out)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    const char *name = weft_schedule_name(s);
    fprintf(out, "schedule %s%s%u ranks, %u stages (%s), %u micros, %zu actions%s\n", name,
            name[0] != '\0' ? ", " : "", place->n_ranks, place->n_stages,
            weft_placement_name(weft_schedule_placement_kind(s)), place->n_micros,
            weft_schedule_n_actions(s),
            weft_schedule_is_lowered(s) ? " with their messages" : "");
}

static void print_settings(const struct wf_train_settings *s, FILE *out)
{
    fprintf(out,
            "settings pp %u x dp %u, schedule %s, %u micros; %llu steps of %u sequences, data "
            "%s\n",
            s->parallel.pp, s->parallel.dp,
            s->parallel.schedule != NULL ? wf_shown(s->parallel.schedule).at : "unnamed",
            s->parallel.micros, (unsigned long long)s->train.steps, s->data.batch,
            s->data.train != NULL ? wf_shown(s->data.train).at : "not given");
}

static void print_metrics(const struct wf_metrics_info *m, FILE *out)
{
    fprintf(out, "metrics  ");
    if (m->lines == 0)
        fprintf(out, "no steps yet");
    else
        fprintf(out, "%llu step%s, the last is step %llu; first loss %.4f, last loss %.4f",
                (unsigned long long)m->lines, m->lines == 1 ? "" : "s",
                (unsigned long long)m->last_step, m->first_loss, m->last_loss);
    if (m->restarts > 0)
        fprintf(out, "; restarted %llu time%s", (unsigned long long)m->restarts,
                m->restarts == 1 ? "" : "s");
    fprintf(out, "%s\n", m->truncated ? "; the last line is truncated" : "");
}

static void print_model(const struct weft_model *m, uint64_t n_params, size_t n_tensors,
                        FILE *out)
{
    char params[WF_NUMBER_CHARS];
    fprintf(out, "model    %s, %u layer%s of dimension %u, %u heads", weft_arch_name(m->arch),
            m->layers, m->layers == 1 ? "" : "s", m->dim, m->heads);
    if (m->kv_heads != m->heads)
        fprintf(out, " (%u of keys and values)", m->kv_heads);
    fprintf(out, ", ffn %u, vocabulary %u, context %u%s", m->ffn, m->vocab, m->ctx,
            m->tied ? ", tied" : "");
    if (m->residual_block_layers > 0)
        fprintf(out, ", residual blocks of %u layers", m->residual_block_layers);
    fprintf(out, "; %s parameters in %zu tensors\n", wf_grouped(params, n_params), n_tensors);
}

/* -- tensors --------------------------------------------------------------------------------- */

/* Prints "(768, 2304)" in at least `width` columns, and "()" for a scalar. */
static void print_shape(const uint64_t *shape, uint32_t n_dims, int width, FILE *out)
{
    int n = fprintf(out, "(");
    for (uint32_t i = 0; i < n_dims; i++)
        n += fprintf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    n += fprintf(out, ")");
    if (n < width)
        fprintf(out, "%*s", width - n, "");
}

static void print_tensor(const char *name, const struct wf_safetensors_tensor *t,
                         const char *file, FILE *out)
{
    fprintf(out, "  %-48s %-5s ", wf_shown(name).at, t->dtype);
    print_shape(t->shape, t->n_dims, 16, out);
    fprintf(out, "%s%s\n", file != NULL ? " " : "", file != NULL ? wf_shown(file).at : "");
}

static void print_model_dir(const struct wf_model_info *v, FILE *out)
{
    print_model(wf_hf_model(v->hf), v->n_params, v->params.n, out);
    for (size_t i = 0; i < v->params.n; i++) {
        struct wf_hf_location at = wf_model_info_locate(v, i);
        print_tensor(v->tensors[i].name, at.tensor, wf_path_name(wf_safetensors_path(at.file)),
                     out);
    }
}

static void print_safetensors(const struct wf_safetensors *s, FILE *out)
{
    char count[WF_NUMBER_CHARS];
    size_t n = wf_safetensors_count(s);
    fprintf(out, "tensors  %zu with %s elements\n", n,
            wf_grouped(count, wf_safetensors_n_elements(s)));
    for (size_t i = 0; i < n; i++)
        print_tensor(wf_safetensors_at(s, i)->name, wf_safetensors_at(s, i), NULL, out);
}

static void print_checkpoint(const struct wf_checkpoint_info *v, FILE *out)
{
    print_model(&v->model, v->n_params, wf_ckpt_count(v->store), out);
    fprintf(out, "contents values%s\n", v->has_moments ? " and AdamW moments" : "");
    for (size_t i = 0; i < wf_ckpt_count(v->store); i++) {
        const struct wf_ckpt_param *p = wf_ckpt_at(v->store, i);
        fprintf(out, "  %-48s ", wf_shown(p->name).at);
        print_shape(p->shape, p->n_dims, 0, out);
        fputc('\n', out);
    }
}

/* -- any path -------------------------------------------------------------------------------- */

static void print_shards(const struct wf_shards_info *v, FILE *out)
{
    char count[WF_NUMBER_CHARS];
    fprintf(out, "tokens   %s", wf_grouped(count, v->n_tokens));
    if (v->width != 0)
        fprintf(out, ", uint%zu", 8 * v->width);
    if (v->largest >= 0)
        fprintf(out, ", the largest is %d", v->largest);
    fputc('\n', out);
}

static void print_trace(const struct wf_trace_info *v, FILE *out)
{
    const struct weft_trace *t = &v->trace;
    struct wf_text table = {0};
    fprintf(out, "trace    %s%s%u ranks, %u stages, %u micros, %zu events", t->name,
            t->name[0] != '\0' ? ", " : "", t->n_ranks, t->n_stages, t->n_micros, t->n_events);
    if (t->unit_seconds > 0)
        fprintf(out, ", %.6g ms\n", t->makespan * t->unit_seconds * 1e3);
    else
        fprintf(out, ", %.6g units of time\n", t->makespan);
    wf_cost_spread_print(&table, &v->costs, t->unit_seconds);
    fputs(table.failed ? "" : table.at, out);
    wf_text_release(&table);
}

static void print_run(const struct wf_run_info *v, FILE *out)
{
    if (v->has_settings)
        print_settings(&v->settings, out);
    if (v->has_metrics)
        print_metrics(&v->metrics, out);
    if (v->schedule != NULL)
        print_schedule(v->schedule, out);
    if (v->n_traces > 0)
        fprintf(out, "traces   %zu in trace/\n", v->n_traces);
    if (v->has_model)
        print_model(wf_hf_model(v->model.hf), v->model.n_params, v->model.params.n, out);
    if (v->flights.n > 0)
        wf_flights_print(&v->flights, v->finished, out);
}

void wf_inspection_print(const struct wf_inspection *v, const char *path, FILE *out)
{
    fprintf(out, "%s: ", wf_shown(path).at);
    switch (v->kind) {
    case WF_ARTIFACT_MODEL:
        fprintf(out, "a model\n");
        print_model_dir(&v->model, out);
        break;
    case WF_ARTIFACT_CHECKPOINT:
        fprintf(out, "a checkpoint of step %llu, run %s; all hashes match\n",
                (unsigned long long)wf_ckpt_step(v->checkpoint.store),
                wf_ckpt_run(v->checkpoint.store));
        print_checkpoint(&v->checkpoint, out);
        break;
    case WF_ARTIFACT_RUN:
        fprintf(out, "a run of weft train, %s\n",
                v->run.finished    ? "finished"
                : v->run.has_model ? "stopped before its last step; model/ has the weights"
                                   : "not finished (there is no model/)");
        print_run(&v->run, out);
        break;
    case WF_ARTIFACT_SHARDS:
        if (v->shards.n_files == 1)
            fprintf(out, "a token shard\n");
        else
            fprintf(out, "%zu token shards\n", v->shards.n_files);
        print_shards(&v->shards, out);
        break;
    case WF_ARTIFACT_SAFETENSORS:
        fprintf(out, "a safetensors file\n");
        print_safetensors(v->safetensors, out);
        break;
    case WF_ARTIFACT_FLIGHT:
        fprintf(out, "a flight record\n");
        wf_flight_print(&v->flight, out);
        break;
    case WF_ARTIFACT_TRACE:
        fprintf(out, "a trace\n");
        print_trace(&v->trace, out);
        break;
    case WF_ARTIFACT_METRICS:
        fprintf(out, "metrics of weft train\n");
        print_metrics(&v->metrics, out);
        break;
    case WF_ARTIFACT_SETTINGS:
        fprintf(out, "settings of weft train\n");
        print_settings(&v->settings, out);
        break;
    case WF_ARTIFACT_SCHEDULE:
        fprintf(out, "a schedule (weft check verifies it)\n");
        print_schedule(v->schedule, out);
        break;
    case WF_ARTIFACT_LLMC:
    case WF_ARTIFACT_UNKNOWN:
        break;
    }
}
