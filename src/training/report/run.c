/* Reads the directory of a run for the page. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "training/report/run.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "config/json_input.h"
#include "planning/draw/axis.h"
#include "training/ckpt/store.h"

enum {
    MAX_LINE = 1 << 16,
    MAX_CONFIG_BYTES = 1 << 20,
    /* maximum bytes of samples; only the end of a longer file is read */
    MAX_SAMPLES_BYTES = 4 << 20,
    MAX_SAMPLES = 40,
    MAX_CHECKPOINTS = 1000,
};

void wf_run_note(struct wf_run *run, enum weft_status status, const char *problem)
{
    if (run->problem[0] != '\0')
        return;
    run->problem_status = status == WEFT_NOMEM || status == WEFT_IO ? status : WEFT_DATA;
    snprintf(run->problem, sizeof run->problem, "%.299s", problem);
}

/* Records that a file cannot be read because of errno, unless it does not exist. */
static void note_errno(struct wf_run *run, const char *path)
{
    char text[300];
    if (errno == ENOENT)
        return;
    snprintf(text, sizeof text, "%.200s: %.80s", path, strerror(errno));
    wf_run_note(run, wf_errno_status(errno, WEFT_DATA), text);
}

static void note_no_memory(struct wf_run *run, const char *path)
{
    errno = ENOMEM;
    note_errno(run, path);
}

/* Returns true if a file exists.  Records any other error than its absence. */
static bool is_there(struct wf_run *run, const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0)
        return true;
    note_errno(run, path);
    return false;
}

/* Reads a line.  Returns its length, or 0 at the end of the file.  If the file cannot be read,
 * records the cause and returns 0. */
static size_t read_line(struct wf_run *run, const char *path, FILE *in, char **line,
                        size_t *capacity)
{
    errno = 0;
    ssize_t len = getline(line, capacity, in);
    if (ferror(in) || (len < 0 && !feof(in))) {
        note_errno(run, path);
        return 0;
    }
    return len < 0 ? 0 : (size_t)len;
}

/* -- metrics ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t column;
} columns[] = {
    {"step", WF_RUN_COLUMN(step)},           {"loss", WF_RUN_COLUMN(loss)},
    {"grad_norm", WF_RUN_COLUMN(grad_norm)}, {"lr", WF_RUN_COLUMN(lr)},
    {"tokens", WF_RUN_COLUMN(tokens)},       {"ms", WF_RUN_COLUMN(ms)},
    {"tok_s", WF_RUN_COLUMN(tok_s)},         {"mfu", WF_RUN_COLUMN(mfu)},
    {"bubble", WF_RUN_COLUMN(bubble)},       {"bubble_plan", WF_RUN_COLUMN(bubble_plan)},
    {"val_loss", WF_RUN_COLUMN(val_loss)},
};

/* Returns a value with which charts compute without overflow and underflow.  Values beyond the
 * limits, which no run has, count as missing or as 0. */
static double chart_value(double value)
{
    if (!(fabs(value) <= 1e100))
        return NAN;
    return fabs(value) < 1e-100 ? 0 : value;
}

/* Parses a line.  Sets *valid to false if it is not a line of metrics. */
static enum weft_status parse_point(const char *line, size_t len, struct wf_run_point *out,
                                    bool *valid, struct weft_error *err)
{
    json_t *root = NULL;
    json_error_t why;
    WEFT_TRY(
        wf_json_load(line, len, JSON_REJECT_DUPLICATES, "metrics.jsonl", &root, &why, err));
    for (size_t i = 0; i < WEFT_LEN(columns); i++) {
        json_t *value = json_object_get(root, columns[i].name);
        double *to = (double *)((char *)out + columns[i].column);
        *to = json_is_number(value) ? chart_value(json_number_value(value)) : NAN;
    }
    json_decref(root);
    *valid = out->step >= 0 && out->step < 9e15; /* the comparison is false for NAN */
    return WEFT_OK;
}

/* Adds a point.  A resumed run repeats the steps after its checkpoint; the repeated lines
 * replace the earlier lines.  A line without a loss for the same step adds its validation
 * loss. */
static bool add_point(struct wf_run *run, const struct wf_run_point *p)
{
    size_t n = run->n_points;
    if (n > 0 && run->points[n - 1].step == p->step && isnan(p->loss) && !isnan(p->val_loss)) {
        run->points[n - 1].val_loss = p->val_loss;
        return true;
    }

    /* A restarted run repeats steps: drops the old ones. */
    if (n > 0 && run->points[n - 1].step >= p->step) {
        run->n_restarts++;
        while (run->n_points > 0 && run->points[run->n_points - 1].step >= p->step)
            run->n_points--;
    }

    if (run->n_points == run->cap_points) {
        size_t capacity = run->cap_points == 0 ? 256 : run->cap_points * 2;
        struct wf_run_point *more = capacity > SIZE_MAX / sizeof *more
                                        ? NULL
                                        : realloc(run->points, capacity * sizeof *more);
        if (more == NULL)
            return false;
        run->points = more;
        run->cap_points = capacity;
    }

    run->points[run->n_points++] = *p;
    return true;
}

/* Reads complete lines only, since the run may still be writing the last line. */
static enum weft_status read_points(struct wf_run *run, const char *path, FILE *in,
                                    struct weft_error *err)
{
    char *line = NULL;
    size_t capacity = 0, len;
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && (len = read_line(run, path, in, &line, &capacity)) > 0 &&
           line[len - 1] == '\n') {
        struct wf_run_point p;
        bool valid = false;
        if (len <= MAX_LINE)
            st = parse_point(line, len, &p, &valid, err);
        if (st == WEFT_OK && valid && !add_point(run, &p))
            st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the steps of a run");
        run->n_read += st == WEFT_OK ? len : 0;
        run->n_malformed += st == WEFT_OK && !valid;
    }
    free(line);
    return st;
}

static enum weft_status update_points(struct wf_run *run, const char *path,
                                      struct weft_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        note_errno(run, path);
        return WEFT_OK;
    }
    if (!S_ISREG(info.st_mode)) {
        wf_run_note(run, WEFT_DATA, "metrics.jsonl is not a regular file");
        return WEFT_OK;
    }

    run->changed = info.st_mtime;
    if ((unsigned long long)info.st_size < run->n_read) { /* the file was replaced */
        run->n_points = run->n_restarts = run->n_malformed = 0;
        run->n_read = 0;
    }

    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        note_errno(run, path);
        return WEFT_OK;
    }
    enum weft_status st = WEFT_OK;
    if (fseeko(in, (off_t)run->n_read, SEEK_SET) != 0)
        note_errno(run, path);
    else
        st = read_points(run, path, in, err);
    fclose(in);
    return st;
}

/* -- samples ------------------------------------------------------------------------------- */

static void release_samples(struct wf_run *run)
{
    for (size_t i = 0; i < run->n_samples; i++)
        free(run->samples[i].text);
    free(run->samples);
    run->samples = NULL;
    run->n_samples = 0;
}

static void add_sample(struct wf_run *run, const char *path, json_t *root)
{
    json_t *step = json_object_get(root, "step");
    const char *text = json_string_value(json_object_get(root, "text"));
    if (text == NULL || !json_is_number(step))
        return;
    char *copy = strdup(text);
    if (copy == NULL) {
        note_no_memory(run, path);
        return;
    }
    if (run->n_samples == MAX_SAMPLES) {
        free(run->samples[0].text);
        memmove(run->samples, run->samples + 1, sizeof *run->samples * (MAX_SAMPLES - 1));
        run->n_samples--;
    }
    run->samples[run->n_samples++] =
        (struct wf_run_sample){.step = json_number_value(step), .text = copy};
}

static void read_samples(struct wf_run *run, const char *path, FILE *in)
{
    struct weft_error err = {0};
    json_error_t why;
    char *line = NULL;
    size_t capacity = 0, len;
    if (fseeko(in, -(off_t)MAX_SAMPLES_BYTES, SEEK_END) == 0)
        read_line(run, path, in, &line, &capacity); /* skips the rest of an incomplete line */
    else
        rewind(in);

    while ((len = read_line(run, path, in, &line, &capacity)) > 0) {
        json_t *root = NULL;
        enum weft_status st =
            wf_json_load(line, len, JSON_REJECT_DUPLICATES, path, &root, &why, &err);
        if (st != WEFT_OK)
            wf_run_note(run, st, err.msg);
        else if (root == NULL && line[len - 1] == '\n') /* else it may still be written */
            wf_run_note(run, WEFT_DATA, "samples.jsonl: a line is not JSON");
        add_sample(run, path, root);
        json_decref(root);
    }
    free(line);
}

static void update_samples(struct wf_run *run, const char *path)
{
    struct weft_error err = {0};
    uint64_t bytes;
    int fd = -1;
    release_samples(run);
    if (!is_there(run, path))
        return;
    /* This does not wait for the writer of a pipe. */
    enum weft_status st = wf_file_open(path, &fd, &bytes, &err);
    if (st != WEFT_OK) {
        wf_run_note(run, st, err.msg);
        return;
    }
    FILE *in = fdopen(fd, "rb");
    if (in == NULL) {
        note_errno(run, path);
        close(fd);
        return;
    }

    run->samples = calloc(MAX_SAMPLES, sizeof *run->samples);
    if (run->samples == NULL)
        note_no_memory(run, path);
    else
        read_samples(run, path, in);
    fclose(in);
}

/* -- checkpoints --------------------------------------------------------------------------- */

/* Returns the next entry of a directory, or NULL at its end.  If the directory cannot be read,
 * records the cause and returns NULL. */
static const struct dirent *next_entry(struct wf_run *run, const char *folder, DIR *list)
{
    errno = 0;
    const struct dirent *entry = readdir(list);
    if (entry == NULL && errno != 0)
        note_errno(run, folder);
    return entry;
}

static unsigned long long folder_bytes(struct wf_run *run, const char *path, bool *complete)
{
    unsigned long long sum = 0;
    struct stat info;
    DIR *list = opendir(path);
    if (list == NULL) {
        note_errno(run, path);
        return 0;
    }

    for (const struct dirent *entry; (entry = next_entry(run, path, list)) != NULL;) {
        char *file = wf_path_join(path, entry->d_name);
        if (file == NULL)
            note_no_memory(run, path);
        else if (lstat(file, &info) != 0)
            note_errno(run, file);
        else if (S_ISREG(info.st_mode))
            sum += (unsigned long long)info.st_size;
        *complete = *complete || strcmp(entry->d_name, "manifest.json") == 0;
        free(file);
    }
    closedir(list);
    return sum;
}

static int by_step(const void *pa, const void *pb)
{
    const struct wf_run_checkpoint *a = pa, *b = pb;
    return (a->step > b->step) - (a->step < b->step);
}

static void add_checkpoint(struct wf_run *run, const char *folder, const char *name)
{
    struct stat info;
    uint64_t step;
    struct wf_run_checkpoint c = {0};
    if (run->n_checkpoints == MAX_CHECKPOINTS || !wf_store_parse_step(name, &step))
        return;

    c.step = step;
    char *path = wf_path_join(folder, name);
    if (path == NULL) {
        note_no_memory(run, folder);
    } else if (stat(path, &info) != 0) {
        note_errno(run, path);
    } else if (S_ISDIR(info.st_mode)) {
        c.bytes = folder_bytes(run, path, &c.complete);
        c.written = info.st_mtime;
        run->checkpoints[run->n_checkpoints++] = c;
    }
    free(path);
}

static void update_checkpoints(struct wf_run *run, const char *folder)
{
    free(run->checkpoints);
    run->checkpoints = NULL;
    run->n_checkpoints = 0;
    DIR *list = opendir(folder);
    if (list == NULL) {
        note_errno(run, folder);
        return;
    }
    run->checkpoints = calloc(MAX_CHECKPOINTS, sizeof *run->checkpoints);
    if (run->checkpoints == NULL)
        note_no_memory(run, folder);
    const struct dirent *entry;
    while (run->checkpoints != NULL && (entry = next_entry(run, folder, list)) != NULL)
        add_checkpoint(run, folder, entry->d_name);
    closedir(list);
    if (run->n_checkpoints > 0)
        qsort(run->checkpoints, run->n_checkpoints, sizeof *run->checkpoints, by_step);
}

/* -- the directory ------------------------------------------------------------------------- */

/* Returns the last part of a path, which the caller frees, or NULL if there is no memory. */
static char *last_part(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return strndup(path + begin, end - begin);
}

/* Returns the name of a directory, even if the path is "." or "..". */
static char *base_name(const char *dir)
{
    char *name = last_part(dir);
    if (name == NULL || (strcmp(name, ".") != 0 && strcmp(name, "..") != 0))
        return name;
    char *whole = realpath(dir, NULL);
    if (whole == NULL)
        return name;
    free(name);
    name = last_part(whole);
    free(whole);
    return name;
}

enum weft_status wf_run_init(struct wf_run *run, const char *dir, struct weft_error *err)
{
    *run = (struct wf_run){.dir = strdup(dir)};
    struct wf_text name = {0};
    char *own = base_name(dir);
    if (own != NULL)
        wf_draw_sanitize(&name, own[0] == '\0' ? "run" : own);
    free(own);
    run->name = name.at;
    if (run->dir == NULL || run->name == NULL || name.failed) {
        wf_run_release(run);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a run");
    }
    return WEFT_OK;
}

static void release_settings(struct wf_run *run)
{
    if (run->has_settings)
        wf_settings_release(wf_train_setting_list(), &run->settings);
    run->has_settings = false;
}

void wf_run_release(struct wf_run *run)
{
    release_settings(run);
    release_samples(run);
    wf_planfile_release(&run->plan);
    wf_run_trace_release(&run->planned);
    wf_run_trace_release(&run->measured);
    free(run->checkpoints);
    free(run->points);
    free(run->dir);
    free(run->name);
    *run = (struct wf_run){0};
}

static void update_settings(struct wf_run *run, const char *path)
{
    struct wf_setting_list list = wf_train_setting_list();
    char *text = NULL;
    size_t len = 0;
    struct weft_error err = {0};
    release_settings(run);
    if (!is_there(run, path))
        return;

    enum weft_status st = wf_file_read(path, MAX_CONFIG_BYTES, &text, &len, &err);
    if (st == WEFT_OK)
        st = wf_settings_init(list, &run->settings, &err);
    if (st == WEFT_OK) {
        run->has_settings = true;
        st = wf_settings_parse(list, text, len, path, &run->settings, &err);
        if (st != WEFT_OK)
            release_settings(run);
    }
    if (st != WEFT_OK)
        wf_run_note(run, st, err.msg);
    free(text);
}

static void update_plan(struct wf_run *run, const char *path)
{
    struct weft_error err = {0};
    wf_planfile_release(&run->plan);
    run->has_plan = false;
    if (!is_there(run, path))
        return;
    enum weft_status st = wf_planfile_read(path, &run->plan, &err);
    run->has_plan = st == WEFT_OK;
    if (st != WEFT_OK)
        wf_run_note(run, st, err.msg);
}

enum weft_status wf_run_update(struct wf_run *run, struct weft_error *err)
{
    static const char *const names[] = {"metrics.jsonl", "config.yaml", "plan.json",
                                        "samples.jsonl", "checkpoints", "model"};
    char *paths[WEFT_LEN(names)];
    struct stat info;
    bool exists = false, memory = true;
    int cause = 0;
    run->problem[0] = '\0';
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        paths[i] = wf_path_join(run->dir, names[i]);
        memory = memory && paths[i] != NULL;
        if (i < 2 && paths[i] != NULL && stat(paths[i], &info) == 0)
            exists = true;
        else if (i < 2 && paths[i] != NULL && wf_errno_status(errno, WEFT_DATA) != WEFT_DATA)
            cause = errno;
    }

    enum weft_status st = WEFT_OK;
    if (!memory)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for paths");
    else if (!exists && cause != 0)
        st = WEFT_FAIL(err, wf_errno_status(cause, WEFT_DATA), "%.200s: %s", run->dir,
                       strerror(cause));
    else if (!exists)
        st = WEFT_FAIL(err, WEFT_DATA,
                       "%.200s: not the directory of a run: it has neither metrics.jsonl nor "
                       "config.yaml",
                       run->dir);
    if (st == WEFT_OK)
        st = update_points(run, paths[0], err);

    if (st == WEFT_OK) {
        update_settings(run, paths[1]);
        update_plan(run, paths[2]);
        update_samples(run, paths[3]);
        update_checkpoints(run, paths[4]);
        run->finished = is_there(run, paths[5]);
        run->unlocked = wf_store_is_locked(run->dir) == 0;
        wf_run_update_traces(run);
    }
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        free(paths[i]);
    return st;
}

/* -- figures ------------------------------------------------------------------------------- */

enum wf_run_state wf_run_state(const struct wf_run *run, time_t now)
{
    double step = wf_run_mean(run, WF_RUN_COLUMN(ms), 20) * 1e-3;
    double patience = 30 + (isnan(step) ? 0 : 20 * step);
    bool all = run->has_settings && run->n_points > 0 &&
               run->points[run->n_points - 1].step >= (double)run->settings.train.steps;
    if (run->finished && (all || !run->has_settings))
        return WF_RUN_STATE_FINISHED;
    if (run->n_points == 0)
        return WF_RUN_STATE_EMPTY;
    return !run->finished && !run->unlocked && difftime(now, run->changed) < patience
               ? WF_RUN_STATE_RUNNING
               : WF_RUN_STATE_STOPPED;
}

double wf_run_mean(const struct wf_run *run, size_t column, size_t max)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = run->n_points; i-- > 0 && n < max;) {
        double value = wf_run_value(&run->points[i], column);
        if (!isnan(value)) {
            sum += value;
            n++;
        }
    }
    return n == 0 ? NAN : sum / (double)n;
}

double wf_run_last(const struct wf_run *run, size_t column)
{
    return wf_run_mean(run, column, 1);
}

double wf_run_min(const struct wf_run *run, size_t column)
{
    double min = NAN;
    for (size_t i = 0; i < run->n_points; i++)
        min = fmin(min, wf_run_value(&run->points[i], column));
    return min;
}

double wf_run_sum(const struct wf_run *run, size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < run->n_points; i++) {
        double value = wf_run_value(&run->points[i], column);
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}
