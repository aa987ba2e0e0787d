/* Writes safetensors files.  The header is written before the data, because the shapes
 * determine all offsets. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/size.h"
#include "base/text.h"
#include "config/json_input.h"
#include "training/ckpt/half.h"
#include "training/ckpt/safetensors.h"
#include "training/ckpt/safetensors_priv.h"

enum { LENGTH_BYTES = 8, ALIGNMENT = 64, CHUNK = 8192 };

struct wf_safetensors_writer {
    struct wf_atomic_file file;
    struct wf_safetensors_entry *entries; /* owned, with the names */
    size_t n_entries;
    size_t current;     /* index of the entry to which the next element belongs */
    uint64_t n_missing; /* elements of the current entry that are not yet appended */
};

enum weft_status wf_safetensors_entry_size(const struct wf_safetensors_entry *e, uint64_t *n,
                                           uint64_t *bytes, struct weft_error *err)
{
    const char *fault = wf_safetensors_name_error(e->name);
    if (fault != NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "the name of tensor '%s' %s", wf_printable(e->name).at,
                         fault);
    if (e->type != WF_DTYPE_F32 && e->type != WF_DTYPE_BF16)
        return WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' cannot be written as %s; use f32 or bf16",
                         e->name, wf_dtype_name(e->type));
    if (e->n_dims > WF_SAFETENSORS_MAX_DIMS)
        return WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' has %" PRIu32 " dimensions (maximum %d)",
                         e->name, e->n_dims, WF_SAFETENSORS_MAX_DIMS);

    uint64_t count = 1, size;
    for (uint32_t i = 0; i < e->n_dims; i++)
        if (!wf_size_mul(count, e->shape[i], &count))
            return WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' has too many elements", e->name);
    if (!wf_size_mul(count, wf_dtype_size(e->type), &size))
        return WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' has too many bytes", e->name);
    *n = count;
    *bytes = size;
    return WEFT_OK;
}

/* -- the header ---------------------------------------------------------------------------- */

/* Appends a JSON string, which must be valid UTF-8.  A lack of memory sets text->failed. */
static void add_string(struct wf_text *text, const char *string)
{
    json_t *value = json_string(string);
    char *quoted = wf_json_dump(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted == NULL)
        text->failed = true;
    else
        wf_text_adds(text, quoted);
    free(quoted);
}

static bool is_new_key(const struct wf_safetensors_pair *pairs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(pairs[k].key, pairs[i].key) == 0)
            return false;
    return strcmp(pairs[i].key, "format") != 0;
}

static enum weft_status add_metadata(struct wf_text *text,
                                     const struct wf_safetensors_pair *pairs, size_t n,
                                     struct weft_error *err)
{
    wf_text_adds(text, "{\"__metadata__\":{\"format\":\"pt\"");
    for (size_t i = 0; i < n; i++) {
        if (!is_new_key(pairs, i))
            return WEFT_FAIL(err, WEFT_CKPT, "metadata '%s' is listed twice",
                             wf_printable(pairs[i].key).at);
        if (!wf_is_utf8(pairs[i].key) || !wf_is_utf8(pairs[i].value))
            return WEFT_FAIL(err, WEFT_CKPT, "metadata '%s' is not UTF-8",
                             wf_printable(pairs[i].key).at);
        wf_text_addc(text, ',');
        add_string(text, pairs[i].key);
        wf_text_addc(text, ':');
        add_string(text, pairs[i].value);
    }
    wf_text_addc(text, '}');
    return WEFT_OK;
}

/* Adds an entry whose data begins at offset *end.  Sets *end to the end of this data. */
static enum weft_status add_entry(struct wf_text *text, const struct wf_safetensors_entry *e,
                                  uint64_t *end, struct weft_error *err)
{
    uint64_t n, bytes, begin = *end;
    WEFT_TRY(wf_safetensors_entry_size(e, &n, &bytes, err));
    /* Many JSON readers and all file offsets are limited to 2^63 - 1. */
    if (!wf_size_add(begin, bytes, end) || *end > INT64_MAX)
        return WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' exceeds the maximum size of a file",
                         e->name);
    wf_text_addc(text, ',');
    add_string(text, e->name);
    wf_text_addf(text, ":{\"dtype\":\"%s\",\"shape\":[",
                 e->type == WF_DTYPE_F32 ? "F32" : "BF16");
    for (uint32_t i = 0; i < e->n_dims; i++)
        wf_text_addf(text, "%s%" PRIu64, i > 0 ? "," : "", e->shape[i]);
    wf_text_addf(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, *end);
    return WEFT_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum weft_status wf_safetensors_check_unique(const struct wf_safetensors_entry *entries,
                                             size_t n, struct weft_error *err)
{
    const char **names = calloc(n + 1, sizeof *names);
    if (names == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu names", n);
    for (size_t i = 0; i < n; i++)
        names[i] = entries[i].name;
    qsort(names, n, sizeof *names, compare_names);
    enum weft_status st = WEFT_OK;
    for (size_t i = 1; i < n && st == WEFT_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            st = WEFT_FAIL(err, WEFT_CKPT, "tensor '%s' is listed twice", names[i]);
    free(names);
    return st;
}

enum weft_status wf_safetensors_header(struct wf_text *text,
                                       const struct wf_safetensors_entry *entries, size_t n,
                                       const struct wf_safetensors_pair *pairs, size_t n_pairs,
                                       struct weft_error *err)
{
    if (n > WF_SAFETENSORS_MAX_TENSORS)
        return WEFT_FAIL(err, WEFT_CKPT, "%zu tensors are too many for one file (maximum %d)",
                         n, WF_SAFETENSORS_MAX_TENSORS);

    uint64_t end = 0;
    WEFT_TRY(add_metadata(text, pairs, n_pairs, err));
    for (size_t i = 0; i < n; i++)
        WEFT_TRY(add_entry(text, &entries[i], &end, err));
    WEFT_TRY(wf_safetensors_check_unique(entries, n, err));
    wf_text_addc(text, '}');
    while ((text->len + LENGTH_BYTES) % ALIGNMENT != 0 && !text->failed)
        wf_text_addc(text, ' ');
    if (text->failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the header of a safetensors file");
    if (text->len > WF_SAFETENSORS_MAX_HEADER)
        return WEFT_FAIL(err, WEFT_CKPT, "the header has %zu bytes (maximum %d)", text->len,
                         WF_SAFETENSORS_MAX_HEADER);
    return WEFT_OK;
}

static enum weft_status write_header(struct wf_safetensors_writer *w,
                                     const struct wf_text *text, struct weft_error *err)
{
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)((uint64_t)text->len >> 8 * i);
    WEFT_TRY(wf_atomic_file_write(&w->file, length, sizeof length, err));
    return wf_atomic_file_write(&w->file, text->at, text->len, err);
}

/* -- the data ------------------------------------------------------------------------------ */

/* Advances to the next entry that has elements. */
static void start_entry(struct wf_safetensors_writer *w)
{
    uint64_t bytes;
    for (; w->current < w->n_entries; w->current++) {
        if (wf_safetensors_entry_size(&w->entries[w->current], &w->n_missing, &bytes, NULL) !=
                WEFT_OK ||
            w->n_missing > 0)
            return;
    }
}

static enum weft_status copy_entries(struct wf_safetensors_writer *w,
                                     const struct wf_safetensors_entry *entries, size_t n,
                                     struct weft_error *err)
{
    w->entries = calloc(n + 1, sizeof *w->entries);
    if (w->entries == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu tensors", n);
    for (; w->n_entries < n; w->n_entries++) {
        struct wf_safetensors_entry *e = &w->entries[w->n_entries];
        *e = entries[w->n_entries];
        e->name = strdup(e->name);
        if (e->name == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a tensor");
    }
    start_entry(w);
    return WEFT_OK;
}

enum weft_status wf_safetensors_writer_new(const char *path,
                                           const struct wf_safetensors_entry *entries,
                                           size_t n_entries,
                                           const struct wf_safetensors_pair *pairs,
                                           size_t n_pairs, struct wf_safetensors_writer **out,
                                           struct weft_error *err)
{
    struct wf_text text = {0};
    struct wf_safetensors_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle to write %.160s", path);
    w->file.fd = -1;
    enum weft_status st = wf_safetensors_header(&text, entries, n_entries, pairs, n_pairs, err);
    if (st == WEFT_OK)
        st = copy_entries(w, entries, n_entries, err);
    if (st == WEFT_OK)
        st = wf_atomic_file_open(&w->file, path, err);
    if (st == WEFT_OK)
        st = write_header(w, &text, err);
    wf_text_release(&text);
    if (st == WEFT_OK)
        *out = w;
    else
        wf_safetensors_writer_free(w);
    return st;
}

static enum weft_status write_halves(struct wf_safetensors_writer *w, const float *values,
                                     size_t n, struct weft_error *err)
{
    uint16_t halves[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = wf_size_min(n - i, CHUNK);
        for (size_t k = 0; k < part; k++)
            halves[k] = wf_bf16_from_f32(values[i + k]);
        WEFT_TRY(wf_atomic_file_write(&w->file, halves, 2 * part, err));
    }
    return WEFT_OK;
}

enum weft_status wf_safetensors_writer_append(struct wf_safetensors_writer *w,
                                              const float *values, size_t n,
                                              struct weft_error *err)
{
    if (n == 0)
        return WEFT_OK;
    if (w->current == w->n_entries)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "%.160s: %zu elements were appended after the last tensor",
                         w->file.path, n);
    const struct wf_safetensors_entry *e = &w->entries[w->current];
    if (n > w->n_missing)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "%.160s: tensor '%s' needs %" PRIu64
                         " elements, but %zu were appended",
                         w->file.path, e->name, w->n_missing, n);
    if (e->type == WF_DTYPE_F32)
        WEFT_TRY(wf_atomic_file_write(&w->file, values, n * sizeof *values, err));
    else
        WEFT_TRY(write_halves(w, values, n, err));

    w->n_missing -= n;
    if (w->n_missing == 0) {
        w->current++;
        start_entry(w);
    }
    return WEFT_OK;
}

enum weft_status wf_safetensors_writer_finish(struct wf_safetensors_writer *w,
                                              struct weft_error *err)
{
    if (w->current < w->n_entries)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%.160s: tensor '%s' lacks %" PRIu64 " elements",
                         w->file.path, w->entries[w->current].name, w->n_missing);
    return wf_atomic_file_commit(&w->file, err);
}

void wf_safetensors_writer_free(struct wf_safetensors_writer *w)
{
    if (w == NULL)
        return;
    wf_atomic_file_release(&w->file);
    for (size_t i = 0; i < w->n_entries; i++)
        free((char *)w->entries[i].name);
    free(w->entries);
    free(w);
}
