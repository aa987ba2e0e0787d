/* Reads and writes plan.json. */
#include "training/run/planfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/text.h"
#include "config/json_input.h"

enum { MAX_FILE_BYTES = 64 << 20, MAX_ENTRIES = 1 << 20 };

/* -- fields: tables for the writer and the reader ------------------------------- */

struct field {
    const char *name;
    size_t offset;
    bool wide; /* true: the field is a uint64_t; false: a uint32_t */
};

#define NARROW(type, name, member)                                                             \
    {                                                                                          \
        name, offsetof(struct type, member), false                                             \
    }
#define WIDE(type, member)                                                                     \
    {                                                                                          \
#member, offsetof(struct type, member), true                                           \
    }

static const struct field model_fields[] = {
    NARROW(weft_model, "layers", layers),
    NARROW(weft_model, "dim", dim),
    NARROW(weft_model, "heads", heads),
    NARROW(weft_model, "kv_heads", kv_heads),
    NARROW(weft_model, "ffn", ffn),
    NARROW(weft_model, "vocab", vocab),
    NARROW(weft_model, "ctx", ctx),
    NARROW(weft_model, "residual_block_layers", residual_block_layers),
};
static const struct field plan_fields[] = {
    NARROW(wf_planfile, "pp", pp),
    NARROW(wf_planfile, "dp", dp),
    NARROW(wf_planfile, "chunks", chunks),
};
static const struct field stage_fields[] = {
    NARROW(wf_planfile_stage, "first_layer", first_layer),
    NARROW(wf_planfile_stage, "layers", n_layers),
};
static const struct field rank_fields[] = {
    NARROW(wf_planfile_rank, "rank", rank),
    WIDE(wf_planfile_rank, planned_bytes),
};
static const struct field byte_fields[] = {
    WIDE(wf_planfile_bytes, weights),  WIDE(wf_planfile_bytes, gradients),
    WIDE(wf_planfile_bytes, packed),   WIDE(wf_planfile_bytes, activations),
    WIDE(wf_planfile_bytes, messages), WIDE(wf_planfile_bytes, scratch),
    WIDE(wf_planfile_bytes, moments),  WIDE(wf_planfile_bytes, total),
};
static const struct field link_fields[] = {
    NARROW(wf_planfile_link, "from", from),
    NARROW(wf_planfile_link, "to", to),
    WIDE(wf_planfile_link, forward_bytes),
    WIDE(wf_planfile_link, backward_bytes),
    WIDE(wf_planfile_link, forward_bytes_without_cache),
    WIDE(wf_planfile_link, backward_bytes_without_cache),
};

/* -- writing ------------------------------------------------------------------------------- */

static void put_fields(struct wf_json *j, const struct field *fields, size_t n,
                       const void *from)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)from + fields[i].offset;
        uint64_t wide;
        uint32_t narrow;
        if (fields[i].wide)
            memcpy(&wide, at, sizeof wide);
        else
            memcpy(&narrow, at, sizeof narrow);
        wf_json_uint(j, fields[i].name, fields[i].wide ? wide : narrow);
    }
}

static void put_numbers(struct wf_json *j, const char *key, const uint32_t *numbers, size_t n)
{
    wf_json_begin(j, key, '[');
    for (size_t i = 0; i < n; i++)
        wf_json_uint(j, NULL, numbers[i]);
    wf_json_end(j, ']');
}

static void put_model(struct wf_json *j, const struct wf_planfile *p)
{
    wf_json_begin(j, "model", '{');
    wf_json_string(j, "arch", weft_arch_name(p->model.arch));
    put_fields(j, model_fields, WEFT_LEN(model_fields), &p->model);
    wf_json_bool(j, "tied", p->model.tied);
    wf_json_uint(j, "params", p->n_params);
    wf_json_end(j, '}');
}

static void put_lists(struct wf_json *j, const struct wf_planfile *p)
{
    wf_json_begin(j, "stages", '[');
    for (size_t i = 0; i < p->n_stages; i++) {
        wf_json_begin(j, NULL, '{');
        put_fields(j, stage_fields, WEFT_LEN(stage_fields), &p->stages[i]);
        wf_json_bool(j, "embedding", p->stages[i].embedding);
        wf_json_bool(j, "head", p->stages[i].head);
        put_numbers(j, "ranks", p->stages[i].ranks, p->stages[i].n_ranks);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');

    wf_json_begin(j, "ranks", '[');
    for (size_t i = 0; i < p->n_ranks; i++) {
        wf_json_begin(j, NULL, '{');
        put_fields(j, rank_fields, WEFT_LEN(rank_fields), &p->ranks[i]);
        put_numbers(j, "stages", p->ranks[i].stages, p->ranks[i].n_stages);
        wf_json_begin(j, "bytes", '{');
        put_fields(j, byte_fields, WEFT_LEN(byte_fields), &p->ranks[i].bytes);
        wf_json_end(j, '}');
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');

    wf_json_begin(j, "links", '[');
    for (size_t i = 0; i < p->n_links; i++) {
        wf_json_begin(j, NULL, '{');
        put_fields(j, link_fields, WEFT_LEN(link_fields), &p->links[i]);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

enum weft_status wf_planfile_write(const char *path, const struct wf_planfile *plan,
                                   struct weft_error *err)
{
    struct wf_text text = {0};
    FILE *out = wf_text_open(&text);
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %.200s", path);

    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "format", "weft plan");
    wf_json_uint(&j, "version", 1);
    put_model(&j, plan);
    put_fields(&j, plan_fields, WEFT_LEN(plan_fields), plan);
    wf_json_string(&j, "schedule", plan->schedule);
    wf_json_number(&j, "bubble_plan", plan->bubble_plan);
    put_lists(&j, plan);
    wf_json_end(&j, '}');
    fputc('\n', out);

    fclose(out);
    enum weft_status st = text.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %.200s", path)
                                      : wf_file_write(path, text.at, text.len, err);
    wf_text_release(&text);
    return st;
}

/* -- reading ------------------------------------------------------------------------------- */

struct reading {
    const char *source;
    struct weft_error *err;
};

static enum weft_status wrong(const struct reading *r, const char *key, const char *what)
{
    return WEFT_FAIL(r->err, WEFT_DATA, "%.200s: '%s' %s", r->source, key, what);
}

static enum weft_status get_uint(const struct reading *r, json_t *from, const char *key,
                                 uint64_t max, uint64_t *out)
{
    json_t *value = json_object_get(from, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > max)
        return wrong(r, key, "is not an integer in range");
    *out = (uint64_t)json_integer_value(value);
    return WEFT_OK;
}

static enum weft_status get_fields(const struct reading *r, json_t *from,
                                   const struct field *fields, size_t n, void *out)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t wide;
        WEFT_TRY(
            get_uint(r, from, fields[i].name, fields[i].wide ? INT64_MAX : UINT32_MAX, &wide));
        uint32_t narrow = (uint32_t)wide;
        char *at = (char *)out + fields[i].offset;
        if (fields[i].wide)
            memcpy(at, &wide, sizeof wide);
        else
            memcpy(at, &narrow, sizeof narrow);
    }
    return WEFT_OK;
}

static enum weft_status get_bool(const struct reading *r, json_t *from, const char *key,
                                 bool *out)
{
    json_t *value = json_object_get(from, key);
    if (!json_is_boolean(value))
        return wrong(r, key, "is not true or false");
    *out = json_is_true(value);
    return WEFT_OK;
}

/* Checks that an object has exactly n_keys keys.  The caller then reads n_keys known keys, so
 * that an unknown key causes an error. */
static enum weft_status check_object(const struct reading *r, json_t *value, const char *key,
                                     size_t n_keys)
{
    if (!json_is_object(value))
        return wrong(r, key, "is not an object");
    if (json_object_size(value) != n_keys)
        return wrong(r, key, "has missing or unknown keys");
    return WEFT_OK;
}

static enum weft_status get_list(const struct reading *r, json_t *from, const char *key,
                                 size_t size, void **out, size_t *n, json_t **list)
{
    *list = json_object_get(from, key);
    if (!json_is_array(*list) || json_array_size(*list) > MAX_ENTRIES)
        return wrong(r, key, "is not a list of reasonable size");
    size_t length = json_array_size(*list);
    *out = calloc(length + 1, size);
    if (*out == NULL)
        return WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for %zu entries", length);
    *n = length;
    return WEFT_OK;
}

static enum weft_status get_numbers(const struct reading *r, json_t *from, const char *key,
                                    uint32_t **out, size_t *n)
{
    json_t *list;
    void *entries = NULL;
    WEFT_TRY(get_list(r, from, key, sizeof **out, &entries, n, &list));
    *out = entries;
    for (size_t i = 0; i < *n; i++) {
        json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            json_integer_value(value) > UINT32_MAX)
            return wrong(r, key, "has an entry that is not the number of a rank or stage");
        (*out)[i] = (uint32_t)json_integer_value(value);
    }
    return WEFT_OK;
}

static enum weft_status read_model(const struct reading *r, json_t *root,
                                   struct wf_planfile *out)
{
    json_t *model = json_object_get(root, "model");
    WEFT_TRY(check_object(r, model, "model", WEFT_LEN(model_fields) + 3));
    WEFT_TRY(get_fields(r, model, model_fields, WEFT_LEN(model_fields), &out->model));
    WEFT_TRY(get_bool(r, model, "tied", &out->model.tied));
    WEFT_TRY(get_uint(r, model, "params", INT64_MAX, &out->n_params));
    const char *arch = json_string_value(json_object_get(model, "arch"));
    if (arch != NULL && strcmp(arch, weft_arch_name(WEFT_ARCH_GPT2)) == 0)
        out->model.arch = WEFT_ARCH_GPT2;
    else if (arch != NULL && strcmp(arch, weft_arch_name(WEFT_ARCH_LLAMA)) == 0)
        out->model.arch = WEFT_ARCH_LLAMA;
    else
        return wrong(r, "arch", "is not a known architecture");
    return WEFT_OK;
}

static enum weft_status read_stages(const struct reading *r, json_t *root,
                                    struct wf_planfile *out)
{
    json_t *list;
    void *entries = NULL;
    WEFT_TRY(get_list(r, root, "stages", sizeof *out->stages, &entries, &out->n_stages, &list));
    out->stages = entries;
    for (size_t i = 0; i < out->n_stages; i++) {
        struct wf_planfile_stage *s = &out->stages[i];
        json_t *from = json_array_get(list, i);
        WEFT_TRY(check_object(r, from, "stages", WEFT_LEN(stage_fields) + 3));
        WEFT_TRY(get_fields(r, from, stage_fields, WEFT_LEN(stage_fields), s));
        WEFT_TRY(get_bool(r, from, "embedding", &s->embedding));
        WEFT_TRY(get_bool(r, from, "head", &s->head));
        WEFT_TRY(get_numbers(r, from, "ranks", &s->ranks, &s->n_ranks));
    }
    return WEFT_OK;
}

static enum weft_status read_ranks(const struct reading *r, json_t *root,
                                   struct wf_planfile *out)
{
    json_t *list;
    void *entries = NULL;
    WEFT_TRY(get_list(r, root, "ranks", sizeof *out->ranks, &entries, &out->n_ranks, &list));
    out->ranks = entries;
    for (size_t i = 0; i < out->n_ranks; i++) {
        struct wf_planfile_rank *rank = &out->ranks[i];
        json_t *from = json_array_get(list, i), *bytes = json_object_get(from, "bytes");
        WEFT_TRY(check_object(r, from, "ranks", WEFT_LEN(rank_fields) + 2));
        WEFT_TRY(get_fields(r, from, rank_fields, WEFT_LEN(rank_fields), rank));
        WEFT_TRY(get_numbers(r, from, "stages", &rank->stages, &rank->n_stages));
        WEFT_TRY(check_object(r, bytes, "bytes", WEFT_LEN(byte_fields)));
        WEFT_TRY(get_fields(r, bytes, byte_fields, WEFT_LEN(byte_fields), &rank->bytes));
    }
    return WEFT_OK;
}

static enum weft_status read_links(const struct reading *r, json_t *root,
                                   struct wf_planfile *out)
{
    json_t *list;
    void *entries = NULL;
    WEFT_TRY(get_list(r, root, "links", sizeof *out->links, &entries, &out->n_links, &list));
    out->links = entries;
    for (size_t i = 0; i < out->n_links; i++) {
        json_t *from = json_array_get(list, i);
        WEFT_TRY(check_object(r, from, "links", WEFT_LEN(link_fields)));
        WEFT_TRY(get_fields(r, from, link_fields, WEFT_LEN(link_fields), &out->links[i]));
    }
    return WEFT_OK;
}

static enum weft_status read_root(const struct reading *r, json_t *root,
                                  struct wf_planfile *out)
{
    uint64_t version;
    const char *format = json_string_value(json_object_get(root, "format"));
    if (format == NULL || strcmp(format, "weft plan") != 0)
        return wrong(r, "format", "is not 'weft plan'");

    WEFT_TRY(get_uint(r, root, "version", INT64_MAX, &version));
    if (version != 1)
        return wrong(r, "version", "is not supported (expected 1)");
    WEFT_TRY(check_object(r, root, "plan", WEFT_LEN(plan_fields) + 8));
    WEFT_TRY(get_fields(r, root, plan_fields, WEFT_LEN(plan_fields), out));

    const char *schedule = json_string_value(json_object_get(root, "schedule"));
    if (schedule == NULL || strlen(schedule) >= sizeof out->schedule)
        return wrong(r, "schedule", "is not a name");
    memcpy(out->schedule, schedule, strlen(schedule) + 1);
    json_t *bubble = json_object_get(root, "bubble_plan");
    if (!json_is_number(bubble) && !json_is_null(bubble))
        return wrong(r, "bubble_plan", "is not a number");
    out->bubble_plan = json_is_null(bubble) ? NAN : json_number_value(bubble);

    WEFT_TRY(read_model(r, root, out));
    WEFT_TRY(read_stages(r, root, out));
    WEFT_TRY(read_ranks(r, root, out));
    return read_links(r, root, out);
}

enum weft_status wf_planfile_parse(const char *text, size_t len, const char *source,
                                   struct wf_planfile *out, struct weft_error *err)
{
    struct wf_planfile plan = {0};
    struct reading r = {.source = source, .err = err};
    json_error_t why;
    json_t *root = NULL;
    WEFT_TRY(wf_json_load(text, len, JSON_REJECT_DUPLICATES, source, &root, &why, err));
    if (root == NULL)
        return WEFT_FAIL(err, WEFT_DATA, "%.200s:%d:%d: not valid JSON: %s", source, why.line,
                         why.column, wf_printable(why.text).at);
    enum weft_status st = read_root(&r, root, &plan);
    json_decref(root);
    if (st == WEFT_OK)
        *out = plan;
    else
        wf_planfile_release(&plan);
    return st;
}

enum weft_status wf_planfile_read(const char *path, struct wf_planfile *out,
                                  struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    enum weft_status st = wf_file_read(path, MAX_FILE_BYTES, &text, &len, err);
    /* WEFT_CKPT does not apply, since plan.json is not part of a checkpoint */
    if (st == WEFT_CKPT) {
        st = WEFT_DATA;
        if (err != NULL)
            err->status = st;
    }
    if (st == WEFT_OK)
        st = wf_planfile_parse(text, len, path, out, err);
    free(text);
    return st;
}

void wf_planfile_release(struct wf_planfile *plan)
{
    for (size_t i = 0; i < plan->n_stages; i++)
        free(plan->stages[i].ranks);
    for (size_t i = 0; i < plan->n_ranks; i++)
        free(plan->ranks[i].stages);
    free(plan->stages);
    free(plan->ranks);
    free(plan->links);
    *plan = (struct wf_planfile){0};
}
