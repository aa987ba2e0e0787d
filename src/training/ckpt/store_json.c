/* The manifest as text.  Its last value is a hash of every byte before it, and what follows the hash
 * is fixed, so that no byte can change unseen. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/size.h"
#include "training/ckpt/store_priv.h"

static const char format_name[] = "weft checkpoint";
enum { FORMAT_VERSION = 1 };

static const char seal_before[] = ",\n\"xxh3\":\"", seal_after[] = "\"}\n";
enum { SEAL_AFTER = sizeof seal_after - 1, SEAL_BEFORE = sizeof seal_before - 1 };

/* -- writing ------------------------------------------------------------------------------- */

static enum weft_status add_string(struct weft_text *text, const char *key, const char *string,
                                   struct weft_error *err)
{
    json_t *value = json_string(string);
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "the %s of a checkpoint is not UTF-8", key);
    weft_text_addf(text, "\"%s\":", key);
    weft_text_adds(text, quoted);
    free(quoted);
    return WEFT_OK;
}

static void add_files(struct weft_text *text, const struct weft_manifest *m)
{
    weft_text_adds(text, ",\n\"files\":[");
    for (size_t i = 0; i < m->n_files; i++) {
        const struct weft_manifest_file *f = &m->files[i];
        weft_text_addf(text,
                       "%s\n{\"name\":\"%s\",\"bytes\":%" PRIu64 ",\"header_bytes\":%" PRIu64
                       ",\"header_xxh3\":\"%s\"}",
                       i > 0 ? "," : "", f->name, f->bytes, f->header_bytes,
                       f->header_hash.hex);
    }
    weft_text_addc(text, ']');
}

static void add_piece(struct weft_text *text, const struct weft_manifest_piece *p)
{
    weft_text_addf(text,
                   "\n {\"what\":\"%s\",\"begin\":%" PRIu64 ",\"count\":%" PRIu64
                   ",\"file\":%zu,\"at\":%" PRIu64 ",\"xxh3\":\"%s\"}",
                   weft_store_what_name(p->what), p->begin, p->n, p->file, p->at, p->hash.hex);
}

static enum weft_status add_param(struct weft_text *text, const struct weft_manifest_param *p,
                                  struct weft_error *err)
{
    weft_text_adds(text, "\n{");
    WEFT_TRY(add_string(text, "name", p->info.name, err));
    weft_text_adds(text, ",\"shape\":[");
    for (uint32_t i = 0; i < p->info.rank; i++)
        weft_text_addf(text, "%s%" PRIu64, i > 0 ? "," : "", p->info.shape[i]);
    weft_text_adds(text, "],\"pieces\":[");
    for (size_t i = 0; i < p->n_pieces; i++) {
        if (i > 0)
            weft_text_addc(text, ',');
        add_piece(text, &p->pieces[i]);
    }
    weft_text_adds(text, "]}");
    return WEFT_OK;
}

static enum weft_status add_body(struct weft_text *text, const struct weft_manifest *m,
                                 struct weft_error *err)
{
    weft_text_addf(text, "{\"format\":\"%s\",\"version\":%d,\"step\":%" PRIu64 ",", format_name,
                   FORMAT_VERSION, m->step);
    WEFT_TRY(add_string(text, "run", m->run, err));
    weft_text_adds(text, ",\n");
    WEFT_TRY(add_string(text, "config", m->config, err));
    weft_text_adds(text, ",\n");
    WEFT_TRY(add_string(text, "model", m->model, err));
    add_files(text, m);
    weft_text_adds(text, ",\n\"params\":[");
    for (size_t i = 0; i < m->n_params; i++) {
        if (i > 0)
            weft_text_addc(text, ',');
        WEFT_TRY(add_param(text, &m->params[i], err));
    }
    weft_text_addc(text, ']');
    return WEFT_OK;
}

enum weft_status weft_manifest_print(const struct weft_manifest *m, struct weft_text *text,
                                     struct weft_error *err)
{
    WEFT_TRY(add_body(text, m, err));
    weft_text_adds(text, seal_before);
    if (!text->failed) {
        struct weft_store_hash hash = weft_store_hash_of(text->at, text->len);
        weft_text_adds(text, hash.hex);
        weft_text_adds(text, seal_after);
    }
    if (text->failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "the text of a manifest");
    if (text->len > STORE_MAX_MANIFEST)
        return WEFT_FAIL(err, WEFT_CKPT, "the manifest has %zu bytes: at most %d are read back",
                         text->len, STORE_MAX_MANIFEST);
    return WEFT_OK;
}

/* -- reading ------------------------------------------------------------------------------- */

/* What all functions that read a part of it need. */
struct reading {
    struct weft_manifest *m;
    const char *source;
    struct weft_error *err;
};

static enum weft_status fail(const struct reading *r, const char *what)
{
    return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: %s", r->source, what);
}

/* The cause is known; says which manifest it is in. */
static enum weft_status in_source(const struct reading *r, enum weft_status st,
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

static bool read_hash(const json_t *object, const char *key, struct weft_store_hash *out)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || strlen(text) != STORE_HASH_CHARS ||
        strspn(text, "0123456789abcdef") != STORE_HASH_CHARS)
        return false;
    memcpy(out->hex, text, sizeof out->hex);
    return true;
}

static enum weft_status read_file(const struct reading *r, const json_t *object)
{
    struct weft_manifest_file f;
    struct weft_error why;
    const char *name = json_string_value(json_object_get(object, "name"));
    if (name == NULL || !weft_store_is_file_name(name))
        return WEFT_FAIL(r->err, WEFT_CKPT,
                         "%.160s: '%s' is no name for a file of a checkpoint", r->source,
                         weft_printable(name == NULL ? "" : name).at);
    memcpy(f.name, name, strlen(name) + 1);
    if (!read_count(object, "bytes", &f.bytes) ||
        !read_count(object, "header_bytes", &f.header_bytes) ||
        !read_hash(object, "header_xxh3", &f.header_hash) || json_object_size(object) != 4 ||
        f.header_bytes > f.bytes)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: what it says of %s makes no sense",
                         r->source, f.name);
    return in_source(r, weft_manifest_add_file(r->m, &f, &why), &why);
}

static bool read_what(const json_t *object, enum weft_store_what *out)
{
    const char *text = json_string_value(json_object_get(object, "what"));
    for (int w = 0; text != NULL && w < WEFT_STORE_N_WHAT; w++)
        if (strcmp(text, weft_store_what_name((enum weft_store_what)w)) == 0) {
            *out = (enum weft_store_what)w;
            return true;
        }
    return false;
}

static enum weft_status read_piece(const struct reading *r, size_t param, const json_t *object)
{
    struct weft_manifest_piece p = {0};
    struct weft_error why;
    uint64_t file, bytes, end;
    if (!read_what(object, &p.what) || !read_count(object, "begin", &p.begin) ||
        !read_count(object, "count", &p.n) || !read_count(object, "file", &file) ||
        !read_count(object, "at", &p.at) || !read_hash(object, "xxh3", &p.hash) ||
        json_object_size(object) != 6)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: a piece of '%s' makes no sense", r->source,
                         weft_printable(r->m->params[param].info.name).at);
    if (file >= r->m->n_files || !weft_size_mul(p.n, sizeof(float), &bytes) ||
        !weft_size_add(p.at, bytes, &end) || end > r->m->files[file].bytes ||
        p.at < r->m->files[file].header_bytes)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: a piece of '%s' is in no file", r->source,
                         weft_printable(r->m->params[param].info.name).at);
    p.file = (size_t)file;
    return in_source(r, weft_manifest_add_piece(r->m, param, &p, &why), &why);
}

static bool read_shape(const json_t *list, uint64_t *shape, uint32_t *rank)
{
    if (!json_is_array(list) || json_array_size(list) > WEFT_STORE_MAX_RANK)
        return false;
    *rank = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *rank; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return false;
        shape[i] = (uint64_t)json_integer_value(v);
    }
    return true;
}

static enum weft_status read_param(const struct reading *r, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const json_t *pieces = json_object_get(object, "pieces");
    uint64_t shape[WEFT_STORE_MAX_RANK];
    uint32_t rank;
    size_t place;
    struct weft_error why;
    if (name == NULL)
        return fail(r, "a parameter has no name");
    if (!read_shape(json_object_get(object, "shape"), shape, &rank) || !json_is_array(pieces) ||
        json_object_size(object) != 3 || weft_manifest_find(r->m, name) != NULL)
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: what it says of '%s' makes no sense",
                         r->source, weft_printable(name).at);
    WEFT_TRY(
        in_source(r, weft_manifest_add_param(r->m, name, rank, shape, &place, &why), &why));
    for (size_t i = 0; i < json_array_size(pieces); i++)
        WEFT_TRY(read_piece(r, place, json_array_get(pieces, i)));
    return WEFT_OK;
}

typedef enum weft_status (*read_fn)(const struct reading *r, const json_t *object);

static enum weft_status read_list(const struct reading *r, const json_t *top, const char *key,
                                  read_fn read)
{
    const json_t *list = json_object_get(top, key);
    if (!json_is_array(list))
        return WEFT_FAIL(r->err, WEFT_CKPT, "%.160s: it has no list of %s", r->source, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        WEFT_TRY(read(r, json_array_get(list, i)));
    return WEFT_OK;
}

static enum weft_status read_format(const struct reading *r, const json_t *top)
{
    const char *format = json_string_value(json_object_get(top, "format"));
    uint64_t version;
    if (format == NULL || strcmp(format, format_name) != 0)
        return fail(r, "it is no manifest of a checkpoint");
    if (!read_count(top, "version", &version) || version == 0)
        return fail(r, "it has no version");
    if (version > FORMAT_VERSION)
        return WEFT_FAIL(r->err, WEFT_CKPT,
                         "%.160s: it has version %" PRIu64 " of the format, this weft reads up "
                         "to %d: use a newer one",
                         r->source, version, FORMAT_VERSION);
    return WEFT_OK;
}

static enum weft_status read_top(struct reading *r, const json_t *top)
{
    WEFT_TRY(read_format(r, top));
    uint64_t step;
    const char *run = json_string_value(json_object_get(top, "run"));
    const char *config = json_string_value(json_object_get(top, "config"));
    const char *model = json_string_value(json_object_get(top, "model"));
    if (!read_count(top, "step", &step) || step > STORE_MAX_STEP || run == NULL ||
        weft_store_run_fault(run) != NULL || config == NULL || model == NULL ||
        json_object_size(top) != 9)
        return fail(r, "its step, run, config or model makes no sense");
    WEFT_TRY(weft_manifest_new(step, run, config, model, &r->m, r->err));
    WEFT_TRY(read_list(r, top, "files", read_file));
    return read_list(r, top, "params", read_param);
}

/* The hash at the end is that of all before it. */
static bool is_sealed(const char *bytes, size_t len)
{
    if (len < SEAL_BEFORE + STORE_HASH_CHARS + SEAL_AFTER)
        return false;
    const char *hex = bytes + len - SEAL_AFTER - STORE_HASH_CHARS;
    struct weft_store_hash hash = weft_store_hash_of(bytes, (size_t)(hex - bytes));
    return memcmp(hex - SEAL_BEFORE, seal_before, SEAL_BEFORE) == 0 &&
           memcmp(hex, hash.hex, STORE_HASH_CHARS) == 0 &&
           memcmp(hex + STORE_HASH_CHARS, seal_after, SEAL_AFTER) == 0;
}

enum weft_status weft_manifest_parse(const char *bytes, size_t len, const char *source,
                                     struct weft_manifest **out, struct weft_error *err)
{
    struct weft_error local;
    struct reading r = {.source = source, .err = err == NULL ? &local : err};
    if (!is_sealed(bytes, len))
        return fail(&r,
                    "it does not have the hash that it ends with: it is cut or was changed");
    json_error_t why;
    json_t *top = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &why);
    if (top == NULL && json_error_code(&why) == json_error_out_of_memory)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: a manifest of %zu bytes", source, len);
    if (top == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: line %d: it is no JSON: %s", source, why.line,
                         weft_printable(why.text).at);
    enum weft_status st = read_top(&r, top);
    json_decref(top);
    if (st == WEFT_OK)
        *out = r.m;
    else
        weft_manifest_free(r.m);
    return st;
}
