/* Prints token shards, schedules, traces, settings and metrics. */
#include <stdlib.h>

#include "base/error.h"
#include "cli/inspect.h"

/* -- token shards --------------------------------------------------------------------------- */

static void print_shards(const struct wf_shards_info *v, FILE *out, const char *path)
{
    char count[WF_NUMBER_CHARS];
    if (v->n_files == 1)
        fprintf(out, "%s: a token shard\n", path);
    else
        fprintf(out, "%s: %zu token shards\n", path, v->n_files);
    fprintf(out, "tokens   %s", wf_grouped(count, v->n_tokens));
    if (v->width != 0)
        fprintf(out, ", uint%zu", 8 * v->width);
    if (v->largest >= 0)
        fprintf(out, ", the largest is %d", v->largest);
    fputc('\n', out);
}

static void print_shards_json(const struct wf_shards_info *v, FILE *out, const char *path)
{
    struct wf_json j;
    wf_inspect_begin(&j, out, path, "tokens");
    wf_json_uint(&j, "files", v->n_files);
    wf_json_uint(&j, "tokens", v->n_tokens);
    if (v->width != 0)
        wf_json_string(&j, "type", v->width == 2 ? "uint16" : "uint32");
    if (v->largest >= 0)
        wf_json_uint(&j, "largest", (uint64_t)v->largest);
    wf_inspect_end(&j);
}

enum weft_status wf_inspect_shards(const char *path, const struct wf_inspect *how,
                                   struct weft_error *err)
{
    struct wf_shards_info v;
    WEFT_TRY(wf_shards_inspect(path, &v, err));
    if (how->json)
        print_shards_json(&v, how->out, path);
    else
        print_shards(&v, how->out, path);
    return WEFT_OK;
}

/* -- schedules ------------------------------------------------------------------------------ */

void wf_schedule_line(const struct weft_schedule *s, FILE *out)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    const char *name = weft_schedule_name(s);
    fprintf(out, "schedule %s%s%u ranks, %u stages (%s), %u micros, %zu actions%s\n", name,
            name[0] != '\0' ? ", " : "", place->n_ranks, place->n_stages,
            weft_placement_name(weft_schedule_placement_kind(s)), place->n_micros,
            weft_schedule_n_actions(s),
            weft_schedule_is_lowered(s) ? " with their messages" : "");
}

void wf_schedule_json(const struct weft_schedule *s, struct wf_json *j)
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

enum weft_status wf_inspect_schedule(const char *path, const struct wf_inspect *how,
                                     struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    WEFT_TRY(wf_schedule_inspect(path, &s, err));
    if (how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "schedule");
        wf_schedule_json(s, &j);
        wf_inspect_end(&j);
    } else {
        fprintf(how->out, "%s: a schedule (weft check verifies it)\n", path);
        wf_schedule_line(s, how->out);
    }
    weft_schedule_free(s);
    return WEFT_OK;
}

/* -- traces --------------------------------------------------------------------------------- */

static void print_trace(const struct weft_trace *t, FILE *out, const char *path)
{
    fprintf(out, "%s: a trace\ntrace    %s%s%u ranks, %u stages, %u micros, %zu events", path,
            t->name, t->name[0] != '\0' ? ", " : "", t->n_ranks, t->n_stages, t->n_micros,
            t->n_events);
    if (t->unit_seconds > 0)
        fprintf(out, ", %.6g ms\n", t->makespan * t->unit_seconds * 1e3);
    else
        fprintf(out, ", %.6g units of time\n", t->makespan);
}

static void print_trace_json(const struct weft_trace *t, FILE *out, const char *path)
{
    struct wf_json j;
    wf_inspect_begin(&j, out, path, "trace");
    wf_json_string(&j, "name", t->name);
    wf_json_uint(&j, "ranks", t->n_ranks);
    wf_json_uint(&j, "stages", t->n_stages);
    wf_json_uint(&j, "micros", t->n_micros);
    wf_json_uint(&j, "events", t->n_events);
    wf_json_number(&j, "makespan", t->makespan);
    wf_json_number(&j, "unit_seconds", t->unit_seconds);
    wf_inspect_end(&j);
}

enum weft_status wf_inspect_trace(const char *path, const struct wf_inspect *how,
                                  struct weft_error *err)
{
    struct weft_trace t = {0};
    WEFT_TRY(wf_trace_inspect(path, &t, err));
    if (how->json)
        print_trace_json(&t, how->out, path);
    else
        print_trace(&t, how->out, path);
    weft_trace_release(&t);
    return WEFT_OK;
}

/* -- settings ------------------------------------------------------------------------------- */

void wf_settings_line(const struct wf_train_settings *s, FILE *out)
{
    fprintf(out,
            "settings pp %u x dp %u, schedule %s, %u micros; %llu steps of %u sequences, data "
            "%s\n",
            s->parallel.pp, s->parallel.dp,
            s->parallel.schedule != NULL ? s->parallel.schedule : "unnamed", s->parallel.micros,
            (unsigned long long)s->train.steps, s->data.batch,
            s->data.train != NULL ? s->data.train : "not given");
}

void wf_settings_json(const struct wf_train_settings *s, struct wf_json *j)
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

enum weft_status wf_inspect_settings(const char *path, const struct wf_inspect *how,
                                     struct weft_error *err)
{
    struct wf_train_settings s;
    WEFT_TRY(wf_settings_inspect(path, &s, err));
    if (how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "settings");
        wf_settings_json(&s, &j);
        wf_inspect_end(&j);
    } else {
        fprintf(how->out, "%s: settings of weft train\n", path);
        wf_settings_line(&s, how->out);
    }
    wf_settings_release(wf_train_setting_list(), &s);
    return WEFT_OK;
}

/* -- metrics -------------------------------------------------------------------------------- */

void wf_metrics_line(const struct wf_metrics_info *m, FILE *out)
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

void wf_metrics_json(const struct wf_metrics_info *m, struct wf_json *j)
{
    wf_json_uint(j, "lines", m->lines);
    wf_json_uint(j, "last_step", m->last_step);
    wf_json_number(j, "first_loss", m->first_loss);
    wf_json_number(j, "last_loss", m->last_loss);
    wf_json_uint(j, "restarts", m->restarts);
    wf_json_bool(j, "cut", m->truncated);
}

enum weft_status wf_inspect_metrics(const char *path, const struct wf_inspect *how,
                                    struct weft_error *err)
{
    struct wf_metrics_info m;
    WEFT_TRY(wf_metrics_inspect(path, &m, err));
    if (how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "metrics");
        wf_metrics_json(&m, &j);
        wf_inspect_end(&j);
    } else {
        fprintf(how->out, "%s: metrics of weft train\n", path);
        wf_metrics_line(&m, how->out);
    }
    return WEFT_OK;
}
