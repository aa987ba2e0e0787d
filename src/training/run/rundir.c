/* Opens, continues and archives the directory of a run. */
#include "training/run/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/step_name.h"
#include "base/temporary.h"
#include "base/text.h"
#include "training/data/tokenizer.h"

static enum weft_status no_memory(const char *dir, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for paths in %.200s", dir);
}

/* Stores the step of the newest checkpoint, taken from its name, and the number of
 * checkpoints. */
static enum weft_status newest_checkpoint(const char *dir, uint64_t *step, size_t *n,
                                          struct weft_error *err)
{
    char *root = wf_path_join(dir, "checkpoints");
    if (root == NULL)
        return no_memory(dir, err);
    DIR *list = opendir(root);
    *step = 0;
    *n = 0;
    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        uint64_t found;
        if (!wf_store_parse_step(entry->d_name, &found))
            continue;
        *step = found > *step ? found : *step;
        ++*n;
    }
    if (list != NULL)
        closedir(list);
    free(root);
    return WEFT_OK;
}

/* Checks that the run directory may be used.  A finished run can be continued from its
 * checkpoints. */
static enum weft_status check_usable(const char *dir, bool resume, struct weft_error *err)
{
    uint64_t step;
    size_t n;
    bool finished = wf_dir_contains(dir, "model");
    WEFT_TRY(newest_checkpoint(dir, &step, &n, err));

    if (finished && n == 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "log.dir %.100s has a finished run without checkpoints, which cannot be "
            "continued; use another directory, or start a new run from its weights with "
            "model.dir=%.100s/model",
            dir, dir);

    if (finished && !resume)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "log.dir %.100s has a finished run; continue it with checkpoint.resume=auto and "
            "more train.steps, use another directory, or start a new run from its weights "
            "with model.dir=%.100s/model",
            dir, dir);
    if (n > 0 && !resume)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "log.dir %.200s has checkpoints of an unfinished run; continue it with "
            "checkpoint.resume=auto, or use another directory",
            dir);
    return WEFT_OK;
}

/* Checks that the run does not start before the newest checkpoint.  Checkpoints are pruned by
 * step number, so such a run would lose its own checkpoints at once. */
static enum weft_status check_resume_step(const char *dir, const struct wf_train_settings *s,
                                          uint64_t resumed, struct weft_error *err)
{
    uint64_t newest = 0;
    size_t n;
    if (resumed == 0 || s->checkpoint.resume_mode == WF_RESUME_NEWEST)
        return WEFT_OK;
    WEFT_TRY(newest_checkpoint(dir, &newest, &n, err));
    if (newest <= resumed)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "checkpoint.resume continues from step %llu, but log.dir %.150s has a "
                     "checkpoint of step %llu; use another directory, or remove the later "
                     "checkpoints",
                     (unsigned long long)resumed, dir, (unsigned long long)newest);
}

/* Makes the directory and its missing parents. */
static enum weft_status make_directories(const char *dir, struct weft_error *err)
{
    char *path = strdup(dir);
    enum weft_status st = path == NULL ? no_memory(dir, err) : WEFT_OK;
    for (char *at = path; st == WEFT_OK && at != NULL;) {
        at = strchr(at + 1, '/');
        if (at != NULL)
            *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            st = WEFT_FAIL(err, WEFT_IO, "cannot make directory %.200s: %s", path,
                           strerror(errno));
        if (at != NULL)
            *at = '/';
    }
    free(path);
    return st;
}

static enum weft_status write_config(const char *path, const struct wf_train_settings *s,
                                     struct weft_error *err)
{
    struct wf_text text = {0};
    enum weft_status st = wf_train_settings_print(s, &text, err);
    if (st == WEFT_OK)
        st = wf_file_write(path, text.at, text.len, err);
    wf_text_release(&text);
    return st;
}

/* Removes temporary files that a killed run left in its directory. */
static enum weft_status remove_leftovers(const char *dir, struct weft_error *err)
{
    static const char *const parts[] = {".", "checkpoints", "trace"};
    for (size_t i = 0; i < WEFT_LEN(parts); i++) {
        char *path = wf_path_join(dir, parts[i]);
        if (path == NULL)
            return no_memory(dir, err);
        wf_temporary_clean_dir(path);
        free(path);
    }
    return WEFT_OK;
}

enum weft_status wf_rundir_open(struct wf_rundir *run, const char *dir, bool resume,
                                struct weft_error *err)
{
    struct stat info;
    *run = (struct wf_rundir){0};
    if (stat(dir, &info) == 0 && !S_ISDIR(info.st_mode))
        return WEFT_FAIL(err, WEFT_USAGE, "log.dir %.200s is a file; expected a directory",
                         dir);
    WEFT_TRY(check_usable(dir, resume, err));
    WEFT_TRY(wf_rollback_init(&run->rollback, dir, err));
    WEFT_TRY(make_directories(dir, err));
    WEFT_TRY(wf_store_lock(dir, &run->lock, err));
    return remove_leftovers(dir, err);
}

/* Returns the file offset of the first line whose step is after `last`. */
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

static enum weft_status truncate_steps(const char *path, uint64_t last, struct weft_error *err)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return WEFT_OK;
    long end = end_of_steps(in, last);
    fclose(in);
    if (end >= 0 && truncate(path, end) != 0)
        return WEFT_FAIL(err, WEFT_IO, "cannot truncate %.200s: %s", path, strerror(errno));
    return WEFT_OK;
}

/* Returns the last step in metrics.jsonl, or 0 if there is none. */
static uint64_t last_step(const char *metrics)
{
    FILE *in = fopen(metrics, "rb");
    char line[4096];
    unsigned long long step, last = 0;
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (sscanf(line, "{\"step\":%llu", &step) == 1)
            last = step;
    if (in != NULL)
        fclose(in);
    return last;
}

/* Renames the weights of a finished run that is continued to model-step-N, with a suffix if
 * that name is in use. */
static enum weft_status archive_model(const char *dir, uint64_t step, char **out,
                                      struct weft_error *err)
{
    enum { ATTEMPTS = 100 };
    char *model = wf_path_join(dir, "model"), *archived = NULL;
    int failed = -1;
    for (int i = 1; model != NULL && failed != 0 && i <= ATTEMPTS; i++) {
        char name[64], of_step[WF_STEP_NAME_SIZE], suffix[16] = "";
        if (i > 1)
            snprintf(suffix, sizeof suffix, "-%d", i);
        wf_step_name_print(step, WF_STEP_DIGITS_CHECKPOINT, of_step);
        snprintf(name, sizeof name, "model-%s%s", of_step, suffix);
        free(archived);
        archived = wf_path_join(dir, name);
        failed = archived == NULL ? -1 : rename(model, archived);
        if (failed != 0 && (archived == NULL || (errno != ENOTEMPTY && errno != EEXIST)))
            break;
    }

    enum weft_status st = WEFT_OK;
    if (model == NULL || archived == NULL)
        st = no_memory(dir, err);
    else if (failed != 0)
        st = WEFT_FAIL(err, WEFT_IO, "cannot rename %.200s: %s", model, strerror(errno));
    if (st == WEFT_OK)
        st = wf_dir_sync(dir, err);
    if (st == WEFT_OK)
        *out = archived;
    else
        free(archived);

    free(model);
    return st;
}

/* Prepares a finished run for more steps.  Changes nothing if the settings require no more
 * steps. */
static enum weft_status prepare_extension(const char *dir, const char *metrics,
                                          const struct wf_train_settings *s, uint64_t resumed,
                                          char **archived, struct weft_error *err)
{
    uint64_t last = last_step(metrics), done = last > resumed ? last : resumed;
    if (!wf_dir_contains(dir, "model"))
        return WEFT_OK;
    if (s->checkpoint.resume_mode != WF_RESUME_NEWEST)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "log.dir %.200s has a finished run; continue it with checkpoint.resume=auto, or "
            "use another directory",
            dir);
    if (s->train.steps <= done)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.dir %.150s has a finished run of %llu steps, and train.steps is "
                         "%llu; raise train.steps to continue it",
                         dir, (unsigned long long)done, (unsigned long long)s->train.steps);
    return archive_model(dir, last > 0 ? last : resumed, archived, err);
}

/* -- files of an earlier run ----------------------------------------------------------- */

/* Files that belong to one run, and their names once a later run has archived them. */
static const struct {
    const char *name, *archived;
} artifacts[] = {{"metrics.jsonl", "metrics-%u.jsonl"},
                 {"samples.jsonl", "samples-%u.jsonl"},
                 {"trace", "trace-%u"}};

enum { ARTIFACT_METRICS, ARTIFACT_SAMPLES, ARTIFACT_TRACE };

enum { ARCHIVE_NAME_LEN = 40 };

static void archive_name(unsigned what, unsigned number, char out[ARCHIVE_NAME_LEN])
{
    const char *form = artifacts[what].archived, *at = strchr(form, '%');
    snprintf(out, ARCHIVE_NAME_LEN, "%.*s%u%s", (int)(at - form), form, number, at + 2);
}

/* Returns the first number that no archived file has.  All archived files of one run share a
 * number. */
static unsigned free_number(const char *dir)
{
    for (unsigned number = 1;; number++) {
        bool taken = false;
        for (unsigned i = 0; i < WEFT_LEN(artifacts) && !taken; i++) {
            char name[ARCHIVE_NAME_LEN];
            archive_name(i, number, name);
            taken = wf_dir_contains(dir, name);
        }
        if (!taken)
            return number;
    }
}

/* Renames an artifact, unless it is missing or empty.  Stores the new path in *out unless `out`
 * is NULL. */
static enum weft_status archive_artifact(const char *dir, unsigned what, unsigned number,
                                         char **out, struct weft_error *err)
{
    char name[ARCHIVE_NAME_LEN];
    archive_name(what, number, name);
    char *from = wf_path_join(dir, artifacts[what].name), *to = wf_path_join(dir, name);
    struct stat info;
    enum weft_status st = from == NULL || to == NULL ? no_memory(dir, err) : WEFT_OK;
    bool moves = st == WEFT_OK && stat(from, &info) == 0 && info.st_size > 0;
    if (moves && rename(from, to) != 0)
        st = WEFT_FAIL(err, WEFT_IO, "cannot rename %.200s: %s", from, strerror(errno));
    if (st == WEFT_OK && moves && out != NULL) {
        *out = to;
        to = NULL;
    }
    free(from);
    free(to);
    return st;
}

/* Returns true if the run continues from a checkpoint of this directory and therefore appends
 * to the metrics of the directory. */
static bool resumes_in_place(const char *dir, const struct wf_train_settings *s,
                             uint64_t resumed)
{
    struct stat here, there;
    if (resumed == 0 || s->checkpoint.resume_mode == WF_RESUME_NEWEST)
        return resumed > 0;
    char *own = wf_path_join(dir, "checkpoints");
    char *parent = wf_path_join(s->checkpoint.resume, "..");
    bool same = own != NULL && parent != NULL && stat(own, &here) == 0 &&
                stat(parent, &there) == 0 && here.st_dev == there.st_dev &&
                here.st_ino == there.st_ino;
    free(own);
    free(parent);
    return same;
}

/* Removes the lines of steps that will run again, or, if the run does not continue here,
 * archives the files of an earlier run. */
static enum weft_status prepare_logs(struct wf_rundir *run, const char *dir,
                                     const char *metrics, bool resumes, uint64_t resumed,
                                     struct weft_error *err)
{
    if (resumes) {
        WEFT_TRY(truncate_steps(metrics, resumed, err));
        return truncate_steps(run->samples, resumed, err);
    }
    unsigned number = free_number(dir);
    WEFT_TRY(archive_artifact(dir, ARTIFACT_METRICS, number, &run->archived_metrics, err));
    WEFT_TRY(archive_artifact(dir, ARTIFACT_SAMPLES, number, NULL, err));
    return archive_artifact(dir, ARTIFACT_TRACE, number, NULL, err);
}

/* -- opening -------------------------------------------------------------------------- */

/* Copies the tokenizer of the data, so that the directory contains everything that its
 * checkpoints need.  A resumed run keeps its copy if the data no longer has a tokenizer. */
static enum weft_status copy_tokenizer(const struct wf_rundir *run, const char *dir,
                                       const char *path, bool resumes, struct weft_error *err)
{
    struct weft_tokenizer *t = NULL;
    if (path == NULL && !resumes)
        unlink(run->tokenizer);
    if (path == NULL)
        return WEFT_OK;
    enum weft_status st = weft_tokenizer_open(path, &t, err);
    if (st == WEFT_OK)
        st = weft_tokenizer_save(t, dir, err);
    weft_tokenizer_free(t);
    return st;
}

enum weft_status wf_rundir_init(struct wf_rundir *run, const char *dir,
                                const struct wf_train_settings *settings, const char *tokenizer,
                                uint64_t resumed, struct weft_error *err)
{
    bool resumes = resumes_in_place(dir, settings, resumed);
    WEFT_TRY(check_resume_step(dir, settings, resumed, err));

    char *config = wf_path_join(dir, "config.yaml");
    char *metrics = wf_path_join(dir, "metrics.jsonl");
    run->model = wf_path_join(dir, "model");
    run->samples = wf_path_join(dir, "samples.jsonl");
    run->tokenizer = wf_path_join(dir, "tokenizer.json");
    enum weft_status st = WEFT_OK;
    if (config == NULL || metrics == NULL || run->model == NULL || run->samples == NULL ||
        run->tokenizer == NULL)
        st = no_memory(dir, err);

    if (st == WEFT_OK)
        st = prepare_extension(dir, metrics, settings, resumed, &run->archived_model, err);
    if (st == WEFT_OK)
        st = copy_tokenizer(run, dir, tokenizer, resumes, err);
    if (st == WEFT_OK)
        st = write_config(config, settings, err);
    if (st == WEFT_OK)
        st = prepare_logs(run, dir, metrics, resumes, resumed, err);
    if (st == WEFT_OK)
        st = wf_metrics_log_new(metrics, &run->metrics, err);

    free(config);
    free(metrics);
    return st;
}

enum weft_status wf_rundir_make_dir(const char *dir, const char *name, struct weft_error *err)
{
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return no_memory(dir, err);
    enum weft_status st = make_directories(path, err);
    free(path);
    return st;
}

static enum weft_status write_in(const char *dir, const char *name, const char *text,
                                 size_t len, struct weft_error *err)
{
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return no_memory(dir, err);
    enum weft_status st = wf_file_write(path, text, len, err);
    free(path);
    return st;
}

/* Stores whether the contents of a file equal a text. */
static enum weft_status has_text(const char *dir, const char *name, const char *text,
                                 size_t len, bool *out, struct weft_error *err)
{
    struct weft_error why = {0};
    char *path = wf_path_join(dir, name), *old = NULL;
    size_t old_len = 0;
    if (path == NULL)
        return no_memory(dir, err);
    /* Reading fails if the file is longer than the text. */
    enum weft_status st = wf_file_read(path, len, &old, &old_len, &why);
    *out = st == WEFT_OK && old_len == len && memcmp(old, text, len) == 0;
    free(old);
    free(path);
    return st == WEFT_NOMEM ? no_memory(dir, err) : WEFT_OK;
}

/* Writes the schedule.  Traces are read together with the schedule, so traces of another
 * schedule are archived. */
static enum weft_status write_schedule(const char *dir, const char *text, size_t len,
                                       struct weft_error *err)
{
    bool same = false;
    WEFT_TRY(has_text(dir, "schedule.csv", text, len, &same, err));
    if (same)
        return WEFT_OK;
    WEFT_TRY(archive_artifact(dir, ARTIFACT_TRACE, free_number(dir), NULL, err));
    return write_in(dir, "schedule.csv", text, len, err);
}

enum weft_status wf_rundir_write_schedule(const char *dir, const struct weft_schedule *schedule,
                                          struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(weft_schedule_print(schedule, WEFT_TEXT_FORMAT_CSV, &text, &len, err));
    enum weft_status st = write_schedule(dir, text, len, err);
    free(text);
    return st;
}

enum weft_status wf_rundir_write_trace(const char *dir, uint64_t step, int replica,
                                       const struct weft_trace *trace, struct weft_error *err)
{
    char name[80], of_step[WF_STEP_NAME_SIZE], *text = NULL;
    size_t len = 0;
    WEFT_TRY(weft_trace_write(trace, &text, &len, err));
    wf_step_name_print(step, WF_STEP_DIGITS_TRACE, of_step);
    if (replica < 0)
        snprintf(name, sizeof name, "trace/%s.trace", of_step);
    else
        snprintf(name, sizeof name, "trace/%s-replica-%d.trace", of_step, replica);
    enum weft_status st = write_in(dir, name, text, len, err);
    free(text);
    return st;
}

enum weft_status wf_rundir_record_activity(const char *dir, struct weft_comm *comm,
                                           struct weft_error *err)
{
    char name[40];
    WEFT_TRY(wf_rundir_make_dir(dir, "ranks", err));
    snprintf(name, sizeof name, "ranks/%u", weft_comm_rank(comm));
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return no_memory(dir, err);
    enum weft_status st = weft_comm_record(comm, path, err);
    free(path);
    return st;
}

enum weft_status wf_rundir_append_sample(const struct wf_rundir *run, uint64_t step,
                                         const char *text, struct weft_error *err)
{
    FILE *out = fopen(run->samples, "ab");
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_IO, "open %.200s: %s", run->samples, strerror(errno));
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_uint(&j, "step", step);
    wf_json_string(&j, "text", text);
    wf_json_end(&j, '}');
    fputc('\n', out);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.200s: %s", run->samples,
                         strerror(errno));
    return WEFT_OK;
}

void wf_rundir_release(struct wf_rundir *run)
{
    if (run->metrics == NULL)
        wf_rollback_undo(&run->rollback, run->lock != NULL);
    wf_rollback_release(&run->rollback);
    wf_metrics_log_free(run->metrics);
    wf_store_unlock(run->lock);
    free(run->model);
    free(run->samples);
    free(run->tokenizer);
    free(run->archived_model);
    free(run->archived_metrics);
    *run = (struct wf_rundir){0};
}
