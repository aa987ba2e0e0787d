#include "train/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "ckpt/file.h"

static enum weft_status no_memory(const char *dir, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for names in %.200s", dir);
}

static enum weft_status check_finished(const char *dir, struct weft_error *err)
{
    struct stat info;
    char *model = weft_path_join(dir, "model");
    if (model == NULL)
        return no_memory(dir, err);
    bool finished = lstat(model, &info) == 0;
    free(model);
    if (finished)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.dir %.150s has a finished run (there is %.150s/model): give "
                         "another directory; --model.dir=%.150s/model starts from its weights",
                         dir, dir, dir);
    return WEFT_OK;
}

static bool is_checkpoint(const char *name)
{
    return strncmp(name, "step-", 5) == 0;
}

static enum weft_status check_checkpoints(const char *dir, struct weft_error *err)
{
    char *root = weft_path_join(dir, "checkpoints");
    if (root == NULL)
        return no_memory(dir, err);
    DIR *list = opendir(root);
    bool found = false;
    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
        found = found || is_checkpoint(entry->d_name);
    if (list != NULL)
        closedir(list);
    free(root);
    if (found)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "log.dir %.200s has checkpoints of an unfinished run: "
            "--checkpoint.resume=auto goes on with it; else give another directory",
            dir);
    return WEFT_OK;
}

/* The step of the newest checkpoint there, by its name; 0: none. */
static enum weft_status newest_checkpoint(const char *dir, uint64_t *out,
                                          struct weft_error *err)
{
    char *root = weft_path_join(dir, "checkpoints");
    if (root == NULL)
        return no_memory(dir, err);
    DIR *list = opendir(root);
    *out = 0;
    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        unsigned long long step = 0;
        if (is_checkpoint(entry->d_name))
            step = strtoull(entry->d_name + strlen("step-"), NULL, 10);
        *out = step > *out ? step : *out;
    }
    if (list != NULL)
        closedir(list);
    free(root);
    return WEFT_OK;
}

/* Old checkpoints go first, by their steps: what goes back would lose its new ones at once. */
static enum weft_status check_goes_on(const char *dir, const struct weft_train_settings *s,
                                      uint64_t resumed, struct weft_error *err)
{
    uint64_t newest = 0;
    if (resumed == 0 || strcmp(s->checkpoint.resume, "auto") == 0)
        return WEFT_OK;
    WEFT_TRY(newest_checkpoint(dir, &newest, err));
    if (newest <= resumed)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "checkpoint.resume goes on from step %llu, but log.dir %.150s has a "
                     "checkpoint of step %llu: give another directory, or remove the later "
                     "checkpoints",
                     (unsigned long long)resumed, dir, (unsigned long long)newest);
}

/* The directory and all above it that are not there. */
static enum weft_status make_directories(const char *dir, struct weft_error *err)
{
    char *path = strdup(dir);
    enum weft_status st = path == NULL ? no_memory(dir, err) : WEFT_OK;
    for (char *at = path; st == WEFT_OK && at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            st = WEFT_FAIL(err, WEFT_IO, "make directory %.200s: %s", path, strerror(errno));
        if (at != NULL)
            *at = '/';
    }
    free(path);
    return st;
}

static enum weft_status write_config(const char *path, const struct weft_train_settings *s,
                                     struct weft_error *err)
{
    struct weft_text text = {0};
    weft_settings_print(weft_train_setting_list(), s, &text);
    enum weft_status st = text.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings")
                                      : weft_file_write(path, text.at, text.len, err);
    weft_text_release(&text);
    return st;
}

enum weft_status weft_rundir_open(struct weft_rundir *run, const char *dir, bool resume,
                                  struct weft_error *err)
{
    struct stat info;
    *run = (struct weft_rundir){0};
    if (stat(dir, &info) == 0 && !S_ISDIR(info.st_mode))
        return WEFT_FAIL(err, WEFT_USAGE, "log.dir %.200s is a file: give a directory", dir);
    WEFT_TRY(check_finished(dir, err));
    if (!resume)
        WEFT_TRY(check_checkpoints(dir, err));
    WEFT_TRY(weft_made_note(&run->made, dir, err));
    WEFT_TRY(make_directories(dir, err));
    return weft_store_lock(dir, &run->lock, err);
}

/* Where the line of the first step after `last` begins. */
static long end_of_steps(FILE *in, uint64_t last)
{
    char *line = NULL;
    size_t room = 0;
    long end = 0;
    for (ssize_t n; (n = getline(&line, &room, in)) > 0;) {
        unsigned long long step;
        if (line[n - 1] != '\n' || sscanf(line, "{\"step\":%llu", &step) != 1 || step > last)
            break;
        end = ftell(in);
    }
    free(line);
    return end;
}

static enum weft_status cut_steps(const char *path, uint64_t last, struct weft_error *err)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return WEFT_OK;
    long end = end_of_steps(in, last);
    fclose(in);
    if (end >= 0 && truncate(path, end) != 0)
        return WEFT_FAIL(err, WEFT_IO, "cut %.200s: %s", path, strerror(errno));
    return WEFT_OK;
}

enum weft_status weft_rundir_init(struct weft_rundir *run, const char *dir,
                                  const struct weft_train_settings *settings, uint64_t resumed,
                                  struct weft_error *err)
{
    /* A run that was to go on and had no checkpoint yet begins again: so do its metrics. */
    bool goes_on = strcmp(settings->checkpoint.resume, "no") != 0;
    WEFT_TRY(check_goes_on(dir, settings, resumed, err));
    char *config = weft_path_join(dir, "config.yaml");
    char *metrics = weft_path_join(dir, "metrics.jsonl");
    run->model = weft_path_join(dir, "model");
    run->samples = weft_path_join(dir, "samples.jsonl");
    enum weft_status st = WEFT_OK;
    if (config == NULL || metrics == NULL || run->model == NULL || run->samples == NULL)
        st = no_memory(dir, err);
    struct stat info;
    if (st == WEFT_OK) {
        run->again = !goes_on && stat(metrics, &info) == 0 && info.st_size > 0;
        st = write_config(config, settings, err);
    }
    if (st == WEFT_OK && goes_on)
        st = cut_steps(metrics, resumed, err);
    if (st == WEFT_OK && goes_on)
        st = cut_steps(run->samples, resumed, err);
    if (st == WEFT_OK)
        st = weft_metrics_log_new(metrics, &run->metrics, err);
    free(config);
    free(metrics);
    return st;
}

enum weft_status weft_rundir_make(const char *dir, const char *name, struct weft_error *err)
{
    char *path = weft_path_join(dir, name);
    if (path == NULL)
        return no_memory(dir, err);
    enum weft_status st = make_directories(path, err);
    free(path);
    return st;
}

static enum weft_status write_in(const char *dir, const char *name, const char *text,
                                 size_t len, struct weft_error *err)
{
    char *path = weft_path_join(dir, name);
    if (path == NULL)
        return no_memory(dir, err);
    enum weft_status st = weft_file_write(path, text, len, err);
    free(path);
    return st;
}

enum weft_status weft_rundir_schedule(const char *dir, const struct weft_schedule *schedule,
                                      struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(weft_schedule_print(schedule, WEFT_TEXT_CSV, &text, &len, err));
    enum weft_status st = write_in(dir, "schedule.csv", text, len, err);
    free(text);
    return st;
}

enum weft_status weft_rundir_trace(const char *dir, uint64_t step, int replica,
                                   const struct weft_trace *trace, struct weft_error *err)
{
    char name[80], *text = NULL;
    size_t len = 0;
    WEFT_TRY(weft_trace_write(trace, &text, &len, err));
    if (replica < 0)
        snprintf(name, sizeof name, "trace/step-%06llu.trace", (unsigned long long)step);
    else
        snprintf(name, sizeof name, "trace/step-%06llu-replica-%d.trace",
                 (unsigned long long)step, replica);
    enum weft_status st = write_in(dir, name, text, len, err);
    free(text);
    return st;
}

enum weft_status weft_rundir_record(const char *dir, struct weft_comm *comm,
                                    struct weft_error *err)
{
    char name[40];
    WEFT_TRY(weft_rundir_make(dir, "ranks", err));
    snprintf(name, sizeof name, "ranks/%u", weft_comm_rank(comm));
    char *path = weft_path_join(dir, name);
    if (path == NULL)
        return no_memory(dir, err);
    enum weft_status st = weft_comm_record(comm, path, err);
    free(path);
    return st;
}

enum weft_status weft_rundir_sample(const struct weft_rundir *run, uint64_t step,
                                    const char *text, struct weft_error *err)
{
    FILE *out = fopen(run->samples, "ab");
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_IO, "open %.200s: %s", run->samples, strerror(errno));
    struct weft_json j = {.out = out};
    weft_json_begin(&j, NULL, '{');
    weft_json_uint(&j, "step", step);
    weft_json_string(&j, "text", text);
    weft_json_end(&j, '}');
    fputc('\n', out);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.200s: %s", run->samples,
                         strerror(errno));
    return WEFT_OK;
}

void weft_rundir_release(struct weft_rundir *run)
{
    if (run->lock != NULL && run->metrics == NULL)
        weft_made_undo(&run->made);
    weft_made_release(&run->made);
    weft_metrics_log_free(run->metrics);
    weft_store_unlock(run->lock);
    free(run->model);
    free(run->samples);
    *run = (struct weft_rundir){0};
}
