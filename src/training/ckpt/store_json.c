/* Prints and parses the manifest.  The last value of the manifest is a hash of all bytes before
 * the hash.  The bytes after the hash are constant, so every changed byte is detected. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/size.h"
#include "config/json_input.h"
#include "training/ckpt/store_priv.h"

static const char format_name[] = "weft checkpoint";
enum { FORMAT_VERSION = 2 };

static const char hash_prefix[] = ",\n\"xxh3\":\"", hash_suffix[] = "\"}\n";
enum { HASH_SUFFIX_LEN = sizeof hash_suffix - 1, HASH_PREFIX_LEN = sizeof hash_prefix - 1 };

/* -- writing ------------------------------------------------------------------------------- */

static enum weft_status add_string(struct wf_text *text, const char *key, const char *string,
                                   struct weft_error *err)
{
    if (!wf_is_utf8(string))
        return WEFT_FAIL(err, WEFT_CKPT, "the %s of a checkpoint is not UTF-8", key);
    json_t *value = json_string(string);
    char *quoted = wf_json_dump(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the %s of a checkpoint", key);
    wf_text_addf(text, "\"%s\":", key);
    wf_text_adds(text, quoted);
    free(quoted);
    return WEFT_OK;
}

static void add_files(struct wf_text *text, const struct wf_manifest *m)
{
    wf_text_adds(text, ",\n\"files\":[");
    for (size_t i = 0; i < m->n_files; i++) {
        const struct wf_manifest_file *f = &m->files[i];
        wf_text_addf(text,
                     "%s\n{\"name\":\"%s\",\"bytes\":%" PRIu64 ",\"header_bytes\":%" PRIu64
                     ",\"header_xxh3\":\"%s\"}",
                     i > 0 ? "," : "", f->name, f->bytes, f->header_bytes, f->header_hash.hex);
    }
    wf_text_addc(text, ']');
}

static void add_piece(struct wf_text *text, const struct wf_manifest_piece *p)
{
    wf_text_addf(text,
                 "\n {\"what\":\"%s\",\"begin\":%" PRIu64 ",\"count\":%" PRIu64
                 ",\"file\":%zu,\"at\":%" PRIu64 ",\"xxh3\":\"%s\"}",
                 wf_store_field_name(p->field), p->begin, p->n, p->file, p->at, p->hash.hex);
}

static enum weft_status add_param(struct wf_text *text, const struct wf_manifest_param *p,
                                  struct weft_error *err)
{
    wf_text_adds(text, "\n{");
    WEFT_TRY(add_string(text, "name", p->info.name, err));
    wf_text_adds(text, ",\"shape\":[");
    for (uint32_t i = 0; i < p->info.n_dims; i++)
        wf_text_addf(text, "%s%" PRIu64, i > 0 ? "," : "", p->info.shape[i]);
    wf_text_adds(text, "],\"pieces\":[");
    for (size_t i = 0; i < p->n_pieces; i++) {
        if (i > 0)
            wf_text_addc(text, ',');
        add_piece(text, &p->pieces[i]);
    }
    wf_text_adds(text, "]}");
    return WEFT_OK;
}

static enum weft_status add_body(struct wf_text *text, const struct wf_manifest *m,
                                 struct weft_error *err)
{
    wf_text_addf(text, "{\"format\":\"%s\",\"version\":%d,\"step\":%" PRIu64 ",", format_name,
                 FORMAT_VERSION, m->step);
    WEFT_TRY(add_string(text, "run", m->run, err));
    wf_text_adds(text, ",\n");
    WEFT_TRY(add_string(text, "config", m->config, err));
    wf_text_adds(text, ",\n");
    WEFT_TRY(add_string(text, "model", m->model, err));
    wf_text_adds(text, ",\n");
    WEFT_TRY(add_string(text, "tokenizer", m->tokenizer == NULL ? "" : m->tokenizer, err));
    wf_text_adds(text, ",\n");
    WEFT_TRY(add_string(text, "data", m->data == NULL ? "" : m->data, err));

    add_files(text, m);
    wf_text_adds(text, ",\n\"params\":[");
    for (size_t i = 0; i < m->n_params; i++) {
        if (i > 0)
            wf_text_addc(text, ',');
        WEFT_TRY(add_param(text, &m->params[i], err));
    }
    wf_text_addc(text, ']');
    return WEFT_OK;
}

enum weft_status wf_manifest_print(const struct wf_manifest *m, struct wf_text *text,
                                   struct weft_error *err)
{
    WEFT_TRY(add_body(text, m, err));
    wf_text_adds(text, hash_prefix);
    if (!text->failed) {
        struct wf_xxh3 hash = wf_xxh3_bytes(text->at, text->len);
        wf_text_adds(text, hash.hex);
        wf_text_adds(text, hash_suffix);
    }
    if (text->failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the text of a manifest");
    if (text->len > STORE_MAX_MANIFEST)
        return WEFT_FAIL(err, WEFT_CKPT, "the manifest has %zu bytes (maximum %d)", text->len,
                         STORE_MAX_MANIFEST);
    return WEFT_OK;
}

/* -- reading ------------------------------------------------------------------------------- */

/* The context of all functions that read a part of the manifest. */
struct manifest_reader {
    struct wf_manifest *m;
    const char *source;
    struct weft_error *err;
};

static enum weft_status fail(const struct manifest_reader *r, const char *fault)
{
    return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: %s", r->source, fault);
}

/* Prepends the name of the manifest to an error message. */
static enum weft_status wrap_error(const struct manifest_reader *r, enum weft_status st,
                                   const struct weft_error *why)
{
    if (st == WEFT_OK)
        return st;
    return WEFT_FAIL(r->err, st, "%.160s: %.300s", r->source, why->msg);
}

static bool read_count(const json_t *object, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool read_hash(const json_t *object, const char *key, struct wf_xxh3 *out)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || strlen(text) != WF_XXH3_CHARS ||
        strspn(text, "0123456789abcdef") != WF_XXH3_CHARS)
        return false;
    memcpy(out->hex, text, sizeof out->hex);
    return true;
}

static enum weft_status read_file(const struct manifest_reader *r, const json_t *object)
{
    struct wf_manifest_file f;
    struct weft_error why;
    const char *name = json_string_value(json_object_get(object, "name"));
    if (name == NULL || !wf_store_is_file_name(name))
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: '%s' is not a valid file name", r->source,
                         wf_printable(name == NULL ? "" : name).at);
    memcpy(f.name, name, strlen(name) + 1);
    if (!read_count(object, "bytes", &f.bytes) ||
        !read_count(object, "header_bytes", &f.header_bytes) ||
        !read_hash(object, "header_xxh3", &f.header_hash) || json_object_size(object) != 4 ||
        f.header_bytes > f.bytes)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: the entry of %s is invalid", r->source,
                         f.name);
    return wrap_error(r, wf_manifest_add_file(r->m, &f, &why), &why);
}

static bool read_field(const json_t *object, enum wf_store_field *out)
{
    const char *text = json_string_value(json_object_get(object, "what"));
    for (int w = 0; text != NULL && w < WF_STORE_N_FIELDS; w++)
        if (strcmp(text, wf_store_field_name((enum wf_store_field)w)) == 0) {
            *out = (enum wf_store_field)w;
            return true;
        }
    return false;
}

static enum weft_status read_piece(const struct manifest_reader *r, size_t param,
                                   const json_t *object)
{
    struct wf_manifest_piece p = {0};
    struct weft_error why;
    uint64_t file, bytes, end;
    if (!read_field(object, &p.field) || !read_count(object, "begin", &p.begin) ||
        !read_count(object, "count", &p.n) || !read_count(object, "file", &file) ||
        !read_count(object, "at", &p.at) || !read_hash(object, "xxh3", &p.hash) ||
        json_object_size(object) != 6)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: a piece of '%s' is invalid", r->source,
                         wf_printable(r->m->params[param].info.name).at);
    if (file >= r->m->n_files || !wf_size_mul(p.n, sizeof(float), &bytes) ||
        !wf_size_add(p.at, bytes, &end) || end > r->m->files[file].bytes ||
        p.at < r->m->files[file].header_bytes)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: a piece of '%s' is outside of its file",
                         r->source, wf_printable(r->m->params[param].info.name).at);
    p.file = (size_t)file;
    return wrap_error(r, wf_manifest_add_piece(r->m, param, &p, &why), &why);
}

static bool read_shape(const json_t *list, uint64_t *shape, uint32_t *n_dims)
{
    if (!json_is_array(list) || json_array_size(list) > WF_STORE_MAX_DIMS)
        return false;
    *n_dims = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *n_dims; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return false;
        shape[i] = (uint64_t)json_integer_value(v);
    }
    return true;
}

static enum weft_status read_param(const struct manifest_reader *r, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const json_t *pieces = json_object_get(object, "pieces");
    uint64_t shape[WF_STORE_MAX_DIMS];
    uint32_t n_dims;
    size_t slot;
    struct weft_error why;
    if (name == NULL)
        return fail(r, "a parameter has no name");
    if (!read_shape(json_object_get(object, "shape"), shape, &n_dims) ||
        !json_is_array(pieces) || json_object_size(object) != 3 ||
        wf_manifest_find(r->m, name) != NULL)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: the entry of '%s' is invalid", r->source,
                         wf_printable(name).at);

    WEFT_TRY(
        wrap_error(r, wf_manifest_add_param(r->m, name, n_dims, shape, &slot, &why), &why));
    for (size_t i = 0; i < json_array_size(pieces); i++)
        WEFT_TRY(read_piece(r, slot, json_array_get(pieces, i)));
    return WEFT_OK;
}

typedef enum weft_status (*read_fn)(const struct manifest_reader *r, const json_t *object);

static enum weft_status read_list(const struct manifest_reader *r, const json_t *top,
                                  const char *key, read_fn read)
{
    const json_t *list = json_object_get(top, key);
    if (!json_is_array(list))
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: it has no list of %s", r->source, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        WEFT_TRY(read(r, json_array_get(list, i)));
    return WEFT_OK;
}

static enum weft_status read_format(const struct manifest_reader *r, const json_t *top,
                                    size_t *n_keys)
{
    const char *format = json_string_value(json_object_get(top, "format"));
    uint64_t version;
    if (format == NULL || strcmp(format, format_name) != 0)
        return fail(r, "it is not the manifest of a checkpoint");
    if (!read_count(top, "version", &version) || version == 0)
        return fail(r, "it has no version");
    if (version > FORMAT_VERSION)
        return WEFT_FAIL(r->err, WEFT_CKPT,
                         "%.160s: it has format version %" PRIu64
                         " (maximum %d); use a newer weft",
                         r->source, version, FORMAT_VERSION);
    *n_keys = version == 1 ? 9 : 11; /* version 1 has neither tokenizer nor data */
    return WEFT_OK;
}

static enum weft_status read_top(struct manifest_reader *r, const json_t *top)
{
    size_t n_keys = 0;
    WEFT_TRY(read_format(r, top, &n_keys));
    uint64_t step;
    const char *run = json_string_value(json_object_get(top, "run"));
    const char *config = json_string_value(json_object_get(top, "config"));
    const char *model = json_string_value(json_object_get(top, "model"));
    const char *tokenizer = json_string_value(json_object_get(top, "tokenizer"));
    const char *data = json_string_value(json_object_get(top, "data"));
    bool whole = n_keys == 9 || (tokenizer != NULL && data != NULL);
    if (!read_count(top, "step", &step) || step > STORE_MAX_STEP || run == NULL ||
        wf_store_run_error(run) != NULL || config == NULL || model == NULL || !whole ||
        json_object_size(top) != n_keys)
        return fail(r, "its step, run, config, model, tokenizer or data is invalid");
    WEFT_TRY(wf_manifest_new(step, run, config, model, &r->m, r->err));
    WEFT_TRY(wf_manifest_set_data(r->m, tokenizer, data, r->err));
    WEFT_TRY(read_list(r, top, "files", read_file));
    return read_list(r, top, "params", read_param);
}

/* Returns true if the hash at the end of the manifest matches the bytes before the hash. */
static bool has_valid_hash(const char *bytes, size_t len)
{
    if (len < HASH_PREFIX_LEN + WF_XXH3_CHARS + HASH_SUFFIX_LEN)
        return false;
    const char *hex = bytes + len - HASH_SUFFIX_LEN - WF_XXH3_CHARS;
    struct wf_xxh3 hash = wf_xxh3_bytes(bytes, (size_t)(hex - bytes));
    return memcmp(hex - HASH_PREFIX_LEN, hash_prefix, HASH_PREFIX_LEN) == 0 &&
           memcmp(hex, hash.hex, WF_XXH3_CHARS) == 0 &&
           memcmp(hex + WF_XXH3_CHARS, hash_suffix, HASH_SUFFIX_LEN) == 0;
}

enum weft_status wf_manifest_parse(const char *bytes, size_t len, const char *source,
                                   struct wf_manifest **out, struct weft_error *err)
{
    struct weft_error local;
    struct manifest_reader r = {.source = source, .err = err == NULL ? &local : err};
    if (!has_valid_hash(bytes, len))
        return fail(&r, "its hash does not match; it is truncated or was changed");
    json_error_t why;
    json_t *top = NULL;
    WEFT_TRY(wf_json_load(bytes, len, JSON_REJECT_DUPLICATES, source, &top, &why, err));
    if (top == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: line %d: it is not valid JSON: %s", source,
                         why.line, wf_printable(why.text).at);

    enum weft_status st = read_top(&r, top);
    json_decref(top);
    if (st == WEFT_OK)
        *out = r.m;
    else
        wf_manifest_free(r.m);
    return st;
}
