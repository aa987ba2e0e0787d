/* The directory of a run: its metrics, and all that lies beside them. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "training/ckpt/file.h"

/* -- metrics -------------------------------------------------------------------------------- */

enum { LONGEST_LINE = 4096 };

/* A loss that was no number is null. */
static enum weft_status read_line(json_t *root, const char *path, uint64_t line,
                                  struct wf_metrics_view *m, struct weft_error *err)
{
    json_t *step = json_object_get(root, "step"), *loss = json_object_get(root, "loss");
    long long number = json_is_integer(step) ? json_integer_value(step) : 0;
    if (number < 1 || (!json_is_number(loss) && !json_is_null(loss)))
        return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu: no step from 1 on with its loss", path,
                         (unsigned long long)line);
    if (line > 1 && (uint64_t)number > m->last_step + 1)
        return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu: step %lld comes after step %llu", path,
                         (unsigned long long)line, number, (unsigned long long)m->last_step);
    m->restarts += line > 1 && (uint64_t)number <= m->last_step;
    m->last_step = (uint64_t)number;
    m->last_loss = json_is_null(loss) ? NAN : json_number_value(loss);
    if (line == 1)
        m->first_loss = m->last_loss;
    m->lines = line;
    return WEFT_OK;
}

static enum weft_status read_lines(FILE *in, const char *path, struct wf_metrics_view *m,
                                   struct weft_error *err)
{
    char text[LONGEST_LINE];
    for (uint64_t line = 1; fgets(text, sizeof text, in) != NULL; line++) {
        size_t n = strlen(text);
        if (n == 0 || text[n - 1] != '\n') {
            if (feof(in) && n > 0 && n + 1 < sizeof text) {
                m->cut = true;
                break;
            }
            return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu: a line that is no line of metrics",
                             path, (unsigned long long)line);
        }
        json_error_t why;
        json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
        if (root == NULL)
            return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu:%d: this is no JSON: %s", path,
                             (unsigned long long)line, why.column, wf_printable(why.text).at);
        enum weft_status st = read_line(root, path, line, m, err);
        json_decref(root);
        WEFT_TRY(st);
    }
    return ferror(in) ? WEFT_FAIL(err, WEFT_IO, "%.200s cannot be read", path) : WEFT_OK;
}

enum weft_status wf_read_metrics(const char *path, struct wf_metrics_view *out,
                                 struct weft_error *err)
{
    int fd;
    uint64_t size;
    *out = (struct wf_metrics_view){.first_loss = NAN, .last_loss = NAN};
    WEFT_TRY(wf_as_data(wf_file_open(path, &fd, &size, err), err));
    FILE *in = fdopen(fd, "rb");
    if (in == NULL) {
        close(fd);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to read %.200s", path);
    }
    enum weft_status st = read_lines(in, path, out, err);
    fclose(in);
    return st;
}

void wf_metrics_line(const struct wf_metrics_view *m, FILE *out)
{
    fprintf(out, "metrics  ");
    if (m->lines == 0)
        fprintf(out, "no step yet");
    else
        fprintf(out, "%llu step%s, the last is step %llu; loss %.4f at first, %.4f at last",
                (unsigned long long)m->lines, m->lines == 1 ? "" : "s",
                (unsigned long long)m->last_step, m->first_loss, m->last_loss);
    if (m->restarts > 0)
        fprintf(out, "; started again %llu time%s", (unsigned long long)m->restarts,
                m->restarts == 1 ? "" : "s");
    fprintf(out, "%s\n", m->cut ? "; the last line is cut" : "");
}

void wf_metrics_json(const struct wf_metrics_view *m, struct wf_json *j)
{
    wf_json_uint(j, "lines", m->lines);
    wf_json_uint(j, "last_step", m->last_step);
    wf_json_number(j, "first_loss", m->first_loss);
    wf_json_number(j, "last_loss", m->last_loss);
    wf_json_uint(j, "restarts", m->restarts);
    wf_json_bool(j, "cut", m->cut);
}

enum weft_status wf_inspect_metrics(const char *path, const struct wf_inspect *how,
                                    struct weft_error *err)
{
    struct wf_metrics_view m;
    WEFT_TRY(wf_read_metrics(path, &m, err));
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

/* -- the directory -------------------------------------------------------------------------- */

struct run_view {
    bool has_settings, has_metrics, has_model;
    bool finished; /* all steps are made, and the weights saved */
    struct wf_train_settings settings;
    struct wf_metrics_view metrics;
    struct weft_schedule *schedule; /* owned; NULL when there is none */
    struct wf_model_view model;     /* if it has one */
    struct wf_flights flights;
    size_t n_traces;
};

static void run_view_release(struct run_view *v)
{
    if (v->has_settings)
        wf_settings_release(wf_train_setting_list(), &v->settings);
    weft_schedule_free(v->schedule);
    wf_model_view_release(&v->model);
    wf_flights_release(&v->flights);
}

static enum weft_status count_traces(const char *path, size_t *n, struct weft_error *err)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_DATA, "%.300s is no folder that can be read", path);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        *n += wf_path_ends_in(e->d_name, ".trace");
    closedir(dir);
    return WEFT_OK;
}

enum part { SETTINGS, METRICS, SCHEDULE, TRACES, MODEL, RANKS, N_PARTS };

static const char *const part_names[N_PARTS] = {"config.yaml", "metrics.jsonl", "schedule.csv",
                                                "trace",       "model",         "ranks"};

static enum weft_status read_part(struct run_view *v, enum part part, const char *path,
                                  struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    switch (part) {
    case SETTINGS:
        st = wf_read_settings(path, &v->settings, err);
        v->has_settings = st == WEFT_OK;
        break;
    case METRICS:
        st = wf_read_metrics(path, &v->metrics, err);
        v->has_metrics = st == WEFT_OK;
        break;
    case SCHEDULE:
        st = wf_read_schedule(path, &v->schedule, err);
        break;
    case TRACES:
        st = count_traces(path, &v->n_traces, err);
        break;
    case MODEL:
        st = wf_model_view_init(&v->model, path, err);
        v->has_model = st == WEFT_OK;
        break;
    case RANKS:
        st = wf_flights_init(&v->flights, path,
                             v->has_settings ? v->settings.train.timeout : 60, err);
        break;
    case N_PARTS:
        break;
    }
    return st;
}

static enum weft_status run_view_init(struct run_view *v, const char *dir,
                                      struct weft_error *err)
{
    *v = (struct run_view){.flights = {.lost = SIZE_MAX}};
    enum weft_status st = WEFT_OK;
    for (enum part part = 0; part < N_PARTS && st == WEFT_OK; part++) {
        if (!wf_dir_contains(dir, part_names[part]))
            continue;
        char *path = wf_path_join(dir, part_names[part]);
        st = path != NULL ? read_part(v, part, path, err)
                          : WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
        free(path);
    }
    if (st != WEFT_OK)
        run_view_release(v);
    v->finished = v->has_model && !(v->has_settings && v->has_metrics &&
                                    v->metrics.last_step < v->settings.train.steps);
    return st;
}

static void print_run(const struct run_view *v, FILE *out, const char *path)
{
    fprintf(out, "%s: a run of weft train, %s\n", path,
            v->finished    ? "finished"
            : v->has_model ? "stopped before its last step; model/ has its weights"
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
        wf_model_view_print(&v->model, out);
    if (v->flights.n > 0)
        wf_flights_print(&v->flights, v->finished, out);
}

static void print_run_json(const struct run_view *v, FILE *out, const char *path)
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
        wf_model_view_json(&v->model, &j);
        wf_json_end(&j, '}');
    }
    wf_flights_json(&v->flights, v->finished, &j);
    wf_inspect_end(&j);
}

enum weft_status wf_inspect_run(const char *path, const struct wf_inspect *how,
                                struct weft_error *err)
{
    struct run_view v;
    WEFT_TRY(run_view_init(&v, path, err));
    if (how->json)
        print_run_json(&v, how->out, path);
    else
        print_run(&v, how->out, path);
    run_view_release(&v);
    return WEFT_OK;
}
