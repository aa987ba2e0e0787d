/* Token shards, schedules, traces, settings: one file each. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/inspect.h"
#include "training/data/shard.h"

/* -- token shards --------------------------------------------------------------------------- */

enum {
    CHEAP_TOKENS = 32 << 20, /* so many are read to find the largest */
    PIECE = 1 << 14,
};

struct shards_view {
    uint64_t n_tokens;
    size_t n_files, width; /* bytes of a token; 0 when the files differ */
    int32_t largest;       /* -1: not looked for */
};

/* The header and the count have been checked against the size. */
static size_t width_of(const struct wf_shards *s, const struct shards_view *v)
{
    struct stat info;
    if (v->n_files != 1 || stat(wf_shards_path(s, 0), &info) != 0)
        return 0;
    return (size_t)(((uint64_t)info.st_size - WF_SHARD_HEADER_BYTES) / v->n_tokens);
}

static enum weft_status find_largest(const struct wf_shards *s, struct shards_view *v,
                                     struct weft_error *err)
{
    v->largest = -1;
    if (v->n_tokens > CHEAP_TOKENS)
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

static void print_shards(const struct shards_view *v, FILE *out, const char *path)
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

static void print_shards_json(const struct shards_view *v, FILE *out, const char *path)
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
    struct wf_shards *s = NULL;
    WEFT_TRY(wf_as_data(wf_shards_open(path, &s, err), err));
    struct shards_view v = {.n_tokens = wf_shards_n_tokens(s), .n_files = wf_shards_n_files(s)};
    v.width = width_of(s, &v);
    enum weft_status st = find_largest(s, &v, err);
    wf_shards_free(s);
    if (st == WEFT_OK && how->json)
        print_shards_json(&v, how->out, path);
    else if (st == WEFT_OK)
        print_shards(&v, how->out, path);
    return st;
}

/* -- schedules ------------------------------------------------------------------------------ */

enum weft_status wf_read_schedule(const char *path, struct weft_schedule **out,
                                  struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_inspect_text(path, &text, &len, err));
    enum weft_status st = weft_schedule_parse(text, len, path, false, out, err);
    free(text);
    return wf_as_data(st, err);
}

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
    WEFT_TRY(wf_read_schedule(path, &s, err));
    if (how->json) {
        struct wf_json j;
        wf_inspect_begin(&j, how->out, path, "schedule");
        wf_schedule_json(s, &j);
        wf_inspect_end(&j);
    } else {
        fprintf(how->out, "%s: a schedule (weft check proves it)\n", path);
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
    char *text = NULL;
    size_t len = 0;
    struct weft_trace t = {0};
    WEFT_TRY(wf_inspect_text(path, &text, &len, err));
    enum weft_status st = weft_trace_parse(text, len, path, &t, err);
    free(text);
    if (st != WEFT_OK)
        return wf_as_data(st, err);
    if (how->json)
        print_trace_json(&t, how->out, path);
    else
        print_trace(&t, how->out, path);
    weft_trace_release(&t);
    return WEFT_OK;
}

/* -- settings ------------------------------------------------------------------------------- */

enum weft_status wf_read_settings(const char *path, struct wf_train_settings *out,
                                  struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_inspect_text(path, &text, &len, err));
    enum weft_status st = wf_settings_init(list, out, err);
    if (st == WEFT_OK) {
        st = wf_settings_parse(list, text, len, path, out, err);
        if (st != WEFT_OK)
            wf_settings_release(list, out);
    }
    free(text);
    return wf_as_data(st, err);
}

void wf_settings_line(const struct wf_train_settings *s, FILE *out)
{
    fprintf(out,
            "settings pp %u x dp %u, schedule %s, %u micros; %llu steps of %u sequences, data "
            "%s\n",
            s->parallel.pp, s->parallel.dp,
            s->parallel.schedule != NULL ? s->parallel.schedule : "of no name",
            s->parallel.micros, (unsigned long long)s->train.steps, s->data.batch,
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
    WEFT_TRY(wf_read_settings(path, &s, err));
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
