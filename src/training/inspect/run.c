/* Reads the directory of a run. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "training/inspect/inspect.h"

enum { DEFAULT_TIMEOUT = 60 }; /* seconds; used for a run without settings */

void wf_run_info_release(struct wf_run_info *v)
{
    if (v->has_settings)
        wf_settings_release(wf_train_setting_list(), &v->settings);
    weft_schedule_free(v->schedule);
    wf_model_info_release(&v->model);
    wf_flights_release(&v->flights);
}

static enum weft_status count_traces(const char *path, size_t *n, struct weft_error *err)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.300s: %s", path,
                         strerror(errno));
    errno = 0;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        *n += wf_path_ends_in(e->d_name, ".trace");
    int why = errno;
    closedir(dir);
    return why == 0 ? WEFT_OK : WEFT_FAIL(err, WEFT_IO, "%.300s: %s", path, strerror(why));
}

enum run_part { SETTINGS, METRICS, SCHEDULE, TRACES, MODEL, RANKS, N_PARTS };

static const char *const part_names[N_PARTS] = {"config.yaml", "metrics.jsonl", "schedule.csv",
                                                "trace",       "model",         "ranks"};

static enum weft_status read_part(struct wf_run_info *v, enum run_part part, const char *path,
                                  struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    switch (part) {
    case SETTINGS:
        st = wf_settings_inspect(path, &v->settings, err);
        v->has_settings = st == WEFT_OK;
        break;
    case METRICS:
        st = wf_metrics_inspect(path, &v->metrics, err);
        v->has_metrics = st == WEFT_OK;
        break;
    case SCHEDULE:
        st = wf_schedule_inspect(path, &v->schedule, err);
        break;
    case TRACES:
        st = count_traces(path, &v->n_traces, err);
        break;
    case MODEL:
        st = wf_model_inspect(&v->model, path, err);
        v->has_model = st == WEFT_OK;
        break;
    case RANKS:
        st =
            wf_flights_init(&v->flights, path,
                            v->has_settings ? v->settings.train.timeout : DEFAULT_TIMEOUT, err);
        break;
    case N_PARTS:
        break;
    }
    return st;
}

enum weft_status wf_run_inspect(struct wf_run_info *v, const char *dir, struct weft_error *err)
{
    *v = (struct wf_run_info){.flights = {.lost = SIZE_MAX}};
    enum weft_status st = WEFT_OK;
    for (enum run_part part = 0; part < N_PARTS && st == WEFT_OK; part++) {
        bool present = false;
        st = wf_dir_has(dir, part_names[part], &present, err);
        if (!present)
            continue;
        char *path = wf_path_join(dir, part_names[part]);
        st = path != NULL ? read_part(v, part, path, err)
                          : WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
        free(path);
    }
    if (st != WEFT_OK) {
        wf_run_info_release(v);
        return st;
    }
    v->finished = v->has_model && !(v->has_settings && v->has_metrics &&
                                    v->metrics.last_step < v->settings.train.steps);
    return WEFT_OK;
}
