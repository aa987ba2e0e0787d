/* Reads token shards, schedules, traces, settings and metrics. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "config/json_input.h"
#include "training/data/shard.h"
#include "training/inspect/inspect.h"

/* -- token shards -------------------------------------------------------------------------- */

enum {
    MAX_SCANNED = 32 << 20, /* maximum number of tokens that are scanned for the largest one */
    PIECE = 1 << 14,        /* tokens per read */
};

static enum weft_status find_largest(const struct wf_shards *s, struct wf_shards_info *v,
                                     struct weft_error *err)
{
    v->largest = -1;
    if (v->n_tokens > MAX_SCANNED)
        return WEFT_OK;
    int32_t *piece = malloc(PIECE * sizeof *piece);
    enum weft_status st =
        piece == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for tokens") : WEFT_OK;
    for (uint64_t at = 0; st == WEFT_OK && at < v->n_tokens; at += PIECE) {
        size_t n = v->n_tokens - at < PIECE ? (size_t)(v->n_tokens - at) : PIECE;
        st = wf_shards_read(s, at, n, INT32_MAX, piece, err);
        for (size_t i = 0; st == WEFT_OK && i < n; i++)
            if (piece[i] > v->largest)
                v->largest = piece[i];
    }
    free(piece);
    return st;
}

enum weft_status wf_shards_inspect(const char *path, struct wf_shards_info *out,
                                   struct weft_error *err)
{
    struct wf_shards *s = NULL;
    WEFT_TRY(wf_as_data(wf_shards_open(path, &s, err), err));
    *out = (struct wf_shards_info){.n_tokens = wf_shards_n_tokens(s),
                                   .n_files = wf_shards_n_files(s)};
    out->width = out->n_files == 1 ? wf_shards_width(s, 0) : 0;
    enum weft_status st = find_largest(s, out, err);
    wf_shards_free(s);
    return st;
}

/* -- texts --------------------------------------------------------------------------------- */

enum { MAX_TEXT = 1 << 30 };

static enum weft_status read_text(const char *path, char **text, size_t *len,
                                  struct weft_error *err)
{
    return wf_as_data(wf_file_read(path, MAX_TEXT, text, len, err), err);
}

enum weft_status wf_schedule_inspect(const char *path, struct weft_schedule **out,
                                     struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(read_text(path, &text, &len, err));
    enum weft_status st = weft_schedule_parse(text, len, path, out, err);
    free(text);
    return wf_as_data(st, err);
}

enum weft_status wf_settings_inspect(const char *path, struct wf_train_settings *out,
                                     struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(read_text(path, &text, &len, err));
    enum weft_status st = wf_settings_init(list, out, err);
    if (st == WEFT_OK) {
        st = wf_settings_parse(list, text, len, path, out, err);
        if (st != WEFT_OK)
            wf_settings_release(list, out);
    }
    free(text);
    return wf_as_data(st, err);
}

/* -- metrics ------------------------------------------------------------------------------- */

enum { MAX_LINE = 4096 };

/* Adds one line to the summary.  A loss of null means that the loss was not finite. */
static enum weft_status read_line(json_t *root, const char *path, uint64_t line,
                                  struct wf_metrics_info *m, struct weft_error *err)
{
    json_t *step = json_object_get(root, "step"), *loss = json_object_get(root, "loss");
    long long number = json_is_integer(step) ? json_integer_value(step) : 0;
    if (number < 1 || (!json_is_number(loss) && !json_is_null(loss)))
        return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu: not a step (1 or more) with a loss",
                         path, (unsigned long long)line);
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

static enum weft_status read_lines(FILE *in, const char *path, struct wf_metrics_info *m,
                                   struct weft_error *err)
{
    char text[MAX_LINE];
    for (uint64_t line = 1; fgets(text, sizeof text, in) != NULL; line++) {
        size_t n = strlen(text);
        if (n == 0 || text[n - 1] != '\n') {
            if (feof(in) && n > 0 && n + 1 < sizeof text) {
                m->truncated = true;
                break;
            }
            return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu: not a line of metrics", path,
                             (unsigned long long)line);
        }

        json_error_t why;
        json_t *root = NULL;
        WEFT_TRY(wf_json_load(text, n, JSON_REJECT_DUPLICATES, path, &root, &why, err));
        if (root == NULL)
            return WEFT_FAIL(err, WEFT_DATA, "%.200s:%llu:%d: invalid JSON: %s", path,
                             (unsigned long long)line, why.column, wf_printable(why.text).at);
        enum weft_status st = read_line(root, path, line, m, err);
        json_decref(root);
        WEFT_TRY(st);
    }
    return ferror(in) ? WEFT_FAIL(err, WEFT_IO, "%.200s: %s", path, strerror(errno)) : WEFT_OK;
}

enum weft_status wf_metrics_inspect(const char *path, struct wf_metrics_info *out,
                                    struct weft_error *err)
{
    int fd;
    uint64_t size;
    *out = (struct wf_metrics_info){.first_loss = NAN, .last_loss = NAN};
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
