/* Reads safetensors files.  A byte-by-byte scan first rejects headers with excessive nesting or
 * too many values, so that the JSON parser never receives them. */
#include "training/ckpt/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/size.h"
#include "config/json_input.h"
#include "training/ckpt/half.h"
#include "training/ckpt/safetensors_priv.h"

_Static_assert(sizeof(off_t) == 8, "files of more than 2 GiB need a 64-bit off_t");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the data is copied without byte swapping");

enum {
    LENGTH_BYTES = 8,
    MAX_DEPTH = 4,
    /* The entry of a tensor contains at most 2 + 7 + 1 commas, and one comma follows it.  The
     * remaining 5 commas per tensor are available for metadata. */
    MAX_COMMAS = 16 * WF_SAFETENSORS_MAX_TENSORS,
    CHUNK = 8192, /* elements that are converted at once */
};

struct wf_safetensors {
    int fd;              /* -1: the file is in memory */
    const char *bytes;   /* borrowed: content of a file in memory */
    char *path;          /* owned */
    uint64_t size;       /* size of the whole file in bytes */
    uint64_t data_start; /* offset of the first byte after the header */
    json_t *header;      /* owned: parsed header; names and metadata point into it */
    json_t *metadata;    /* borrowed from header; NULL: no metadata */
    struct wf_safetensors_tensor *tensors; /* owned: all tensors, sorted by offset */
    /* Owned: pointers into `tensors`, sorted by name. */
    const struct wf_safetensors_tensor **by_name;
    size_t n_tensors;
};

static const struct dtype {
    const char *name;
    uint8_t bits;
    bool readable;
    enum wf_dtype type;
} dtypes[] = {
    {"F32", 32, true, WF_DTYPE_F32},    {"BF16", 16, true, WF_DTYPE_BF16},
    {"F16", 16, true, WF_DTYPE_F16},    {.name = "BOOL", .bits = 8},
    {.name = "U8", .bits = 8},          {.name = "I8", .bits = 8},
    {.name = "U16", .bits = 16},        {.name = "I16", .bits = 16},
    {.name = "U32", .bits = 32},        {.name = "I32", .bits = 32},
    {.name = "U64", .bits = 64},        {.name = "I64", .bits = 64},
    {.name = "F64", .bits = 64},        {.name = "C64", .bits = 64},
    {.name = "F8_E5M2", .bits = 8},     {.name = "F8_E4M3", .bits = 8},
    {.name = "F8_E8M0", .bits = 8},     {.name = "F8_E5M2FNUZ", .bits = 8},
    {.name = "F8_E4M3FNUZ", .bits = 8}, {.name = "F4", .bits = 4},
    {.name = "F6_E2M3", .bits = 6},     {.name = "F6_E3M2", .bits = 6},
};

const char *wf_safetensors_name_error(const char *name)
{
    if (name[0] == '\0')
        return "is empty";
    if (strlen(name) > WF_SAFETENSORS_MAX_NAME)
        return "has more than 512 bytes";
    if (!wf_is_printable(name))
        return "has bytes that are not printable ASCII";
    if (strchr(name, '/') != NULL || strstr(name, "..") != NULL)
        return "contains '/' or '..'";
    if (strcmp(name, "__metadata__") == 0)
        return "is reserved for the metadata";
    return NULL;
}

static enum weft_status read_bytes(const struct wf_safetensors *s, uint64_t offset, void *out,
                                   size_t n, struct weft_error *err)
{
    if (s->fd >= 0)
        return wf_file_read_at(s->fd, s->path, offset, out, n, err);
    if (n > 0)
        memcpy(out, s->bytes + offset, n);
    return WEFT_OK;
}

/* -- the header's text --------------------------------------------------------------------- */

/* Checks the nesting depth and the number of commas outside of strings.  The text need not be
 * valid JSON. */
static enum weft_status scan_header(const struct wf_safetensors *s, const char *text,
                                    size_t len, struct weft_error *err)
{
    size_t depth = 0, n_commas = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH)
                return WEFT_FAIL(err, WEFT_CKPT,
                                 "%.160s: byte %zu: the header is nested deeper than %d levels",
                                 s->path, i + LENGTH_BYTES, MAX_DEPTH);
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',' && ++n_commas > MAX_COMMAS) {
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.160s: byte %zu: the header has more than %d values", s->path,
                             i + LENGTH_BYTES, MAX_COMMAS);
        }
    }

    return WEFT_OK;
}

static enum weft_status parse_header(struct wf_safetensors *s, const char *text, size_t len,
                                     struct weft_error *err)
{
    if (text[0] != '{')
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: byte %d: the header does not begin with '{'",
                         s->path, LENGTH_BYTES);
    size_t end = len;
    while (text[end - 1] == ' ')
        end--;
    if (text[end - 1] != '}')
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: byte %zu: the header does not end with '}' and spaces",
                         s->path, end - 1 + LENGTH_BYTES);
    WEFT_TRY(scan_header(s, text, end, err));
    json_error_t why;
    WEFT_TRY(wf_json_load(text, end, JSON_REJECT_DUPLICATES, s->path, &s->header, &why, err));
    if (s->header == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: byte %d: the header is not valid JSON: %s",
                         s->path, why.position + LENGTH_BYTES, wf_printable(why.text).at);
    return WEFT_OK;
}

static enum weft_status load_header(struct wf_safetensors *s, struct weft_error *err)
{
    unsigned char length[LENGTH_BYTES];
    if (s->size < LENGTH_BYTES)
        return WEFT_FAIL(
            err, WEFT_CKPT,
            "%.160s has %" PRIu64
            " bytes; a safetensors file begins with %d bytes for the length of its header",
            s->path, s->size, LENGTH_BYTES);
    WEFT_TRY(read_bytes(s, 0, length, sizeof length, err));
    uint64_t n = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        n = n << 8 | length[i];
    if (n > s->size - LENGTH_BYTES)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: byte 0: the header length is %" PRIu64 ", but only %" PRIu64
                         " bytes follow; the file is truncated or not a safetensors file",
                         s->path, n, s->size - LENGTH_BYTES);
    if (n > WF_SAFETENSORS_MAX_HEADER)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: byte 0: the header has %" PRIu64 " bytes (maximum %d)",
                         s->path, n, WF_SAFETENSORS_MAX_HEADER);
    if (n < 2)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: byte 0: the header has %" PRIu64 " bytes (minimum 2)",
                         s->path, n);

    s->data_start = LENGTH_BYTES + n;
    char *text = malloc((size_t)n);
    if (text == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a header of %" PRIu64 " bytes",
                         s->path, n);
    enum weft_status st = read_bytes(s, LENGTH_BYTES, text, (size_t)n, err);
    if (st == WEFT_OK)
        st = parse_header(s, text, (size_t)n, err);
    free(text);
    return st;
}

/* -- entries of the header ----------------------------------------------------------------- */

#define FAIL_TENSOR(s, err, name, ...) fail_tensor((s), (err), __LINE__, (name), __VA_ARGS__)

static enum weft_status fail_tensor(const struct wf_safetensors *s, struct weft_error *err,
                                    int line, const char *name, const char *fault)
{
    return wf_error_set(err, WEFT_CKPT, __FILE__, line, "%.160s: tensor '%s' %s", s->path,
                        wf_printable(name).at, fault);
}

/* Reads a list of non-negative integers.  *n is the maximum length on entry and the actual
 * length on return. */
static bool read_list(const json_t *list, uint64_t *out, size_t *n)
{
    if (!json_is_array(list) || json_array_size(list) > *n)
        return false;
    *n = json_array_size(list);
    for (size_t i = 0; i < *n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return false;
        out[i] = (uint64_t)json_integer_value(v);
    }
    return true;
}

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < WEFT_LEN(dtypes); i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return &dtypes[i];
    return NULL;
}

/* Computes the number of elements of a shape.  Returns false on overflow. */
static bool count_elements(const uint64_t *shape, size_t n_dims, uint64_t *n)
{
    *n = 1;
    for (size_t i = 0; i < n_dims; i++)
        if (!wf_size_mul(*n, shape[i], n))
            return false;
    return true;
}

static enum weft_status read_extent(const struct wf_safetensors *s,
                                    struct wf_safetensors_tensor *t, const struct dtype *d,
                                    struct weft_error *err)
{
    uint64_t n_bits;
    if (!count_elements(t->shape, t->n_dims, &t->n) || !wf_size_mul(t->n, d->bits, &n_bits))
        return FAIL_TENSOR(s, err, t->name, "has a shape with too many elements");
    if (n_bits % 8 != 0)
        return FAIL_TENSOR(s, err, t->name, "does not fill whole bytes");
    if (t->begin > t->end)
        return FAIL_TENSOR(s, err, t->name, "ends before it begins");
    if (t->end > s->size - s->data_start)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: tensor '%s' ends at byte %" PRIu64 " of the data, which has "
                         "%" PRIu64 "; the file is truncated",
                         s->path, wf_printable(t->name).at, t->end, s->size - s->data_start);
    if (t->end - t->begin != n_bits / 8)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: tensor '%s' has %" PRIu64
                         " bytes in data_offsets, but %" PRIu64 " by its shape and dtype",
                         s->path, wf_printable(t->name).at, t->end - t->begin, n_bits / 8);
    return WEFT_OK;
}

static enum weft_status read_tensor(const struct wf_safetensors *s, const char *name,
                                    const json_t *info, struct wf_safetensors_tensor *t,
                                    struct weft_error *err)
{
    const char *fault = wf_safetensors_name_error(name);
    if (fault != NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: the name of tensor '%s' %s", s->path,
                         wf_printable(name).at, fault);
    if (!json_is_object(info))
        return FAIL_TENSOR(s, err, name, "is not an object");

    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    uint64_t offsets[2];
    size_t n_dims = WF_SAFETENSORS_MAX_DIMS, n_offsets = 2;
    *t = (struct wf_safetensors_tensor){.name = name};
    if (dtype == NULL)
        return FAIL_TENSOR(s, err, name, "has no dtype (a string)");
    if (!read_list(json_object_get(info, "shape"), t->shape, &n_dims))
        return FAIL_TENSOR(s, err, name, "has no shape (a list of at most 8 integers)");
    if (!read_list(json_object_get(info, "data_offsets"), offsets, &n_offsets) ||
        n_offsets != 2)
        return FAIL_TENSOR(s, err, name, "has no data_offsets (two integers)");
    if (json_object_size(info) != 3)
        return FAIL_TENSOR(s, err, name, "has keys other than dtype, shape and data_offsets");

    const struct dtype *d = find_dtype(dtype);
    if (d == NULL)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: tensor '%s' has the unknown dtype '%s'",
                         s->path, wf_printable(name).at, wf_printable(dtype).at);

    t->dtype = d->name;
    t->readable = d->readable;
    t->type = d->type;
    t->n_dims = (uint32_t)n_dims;
    t->begin = offsets[0];
    t->end = offsets[1];
    return read_extent(s, t, d, err);
}

static enum weft_status check_metadata(const struct wf_safetensors *s, struct weft_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(s->metadata))
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: __metadata__ is not an object", s->path);
    json_object_foreach(s->metadata, key, value) if (!json_is_string(value)) return WEFT_FAIL(
        err, WEFT_CKPT, "%.160s: __metadata__ '%s' is not a string", s->path,
        wf_printable(key).at);
    return WEFT_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct wf_safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    const struct wf_safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Checks that every byte of the data belongs to exactly one tensor. */
static enum weft_status check_offsets(const struct wf_safetensors *s, struct weft_error *err)
{
    uint64_t end = 0;
    for (size_t i = 0; i < s->n_tensors; i++) {
        const struct wf_safetensors_tensor *t = &s->tensors[i];
        if (t->begin != end)
            return WEFT_FAIL(err, WEFT_CKPT,
                             "%.160s: tensor '%s' begins at byte %" PRIu64
                             " of the data, but the one before it ends at %" PRIu64 ": %s",
                             s->path, wf_printable(t->name).at, t->begin, end,
                             t->begin < end ? "they overlap" : "there is a gap");
        end = t->end;
    }
    if (end != s->size - s->data_start)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: byte %" PRIu64 ": %" PRIu64
                         " bytes follow that belong to no tensor",
                         s->path, s->data_start + end, s->size - s->data_start - end);
    return WEFT_OK;
}

static enum weft_status list_tensors(struct wf_safetensors *s, struct weft_error *err)
{
    s->metadata = json_object_get(s->header, "__metadata__");
    if (s->metadata != NULL)
        WEFT_TRY(check_metadata(s, err));
    size_t n = json_object_size(s->header) - (s->metadata != NULL);
    if (n > WF_SAFETENSORS_MAX_TENSORS)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s has %zu tensors (maximum %d)", s->path, n,
                         WF_SAFETENSORS_MAX_TENSORS);

    s->tensors = calloc(n + 1, sizeof *s->tensors);
    s->by_name = calloc(n + 1, sizeof *s->by_name);
    if (s->tensors == NULL || s->by_name == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a list of %zu tensors",
                         s->path, n);
    const char *name;
    json_t *info;
    json_object_foreach(s->header, name, info) if (info != s->metadata)
        WEFT_TRY(read_tensor(s, name, info, &s->tensors[s->n_tensors++], err));

    qsort(s->tensors, n, sizeof *s->tensors, compare_offsets);
    WEFT_TRY(check_offsets(s, err));
    for (size_t i = 0; i < n; i++)
        s->by_name[i] = &s->tensors[i];
    qsort(s->by_name, n, sizeof *s->by_name, compare_names);
    return WEFT_OK;
}

/* -- opening and lookup -------------------------------------------------------------------- */

static struct wf_safetensors *new_file(const char *path)
{
    struct wf_safetensors *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->fd = -1;
    s->path = strdup(path);
    if (s->path == NULL) {
        wf_safetensors_free(s);
        return NULL;
    }
    return s;
}

/* Reads the header.  Takes ownership of s: stores s in *out on success and frees it on
 * error. */
static enum weft_status load(struct wf_safetensors *s, struct wf_safetensors **out,
                             struct weft_error *err)
{
    enum weft_status st = load_header(s, err);
    if (st == WEFT_OK)
        st = list_tensors(s, err);
    if (st == WEFT_OK)
        *out = s;
    else
        wf_safetensors_free(s);
    return st;
}

enum weft_status wf_safetensors_open(const char *path, struct wf_safetensors **out,
                                     struct weft_error *err)
{
    struct wf_safetensors *s = new_file(path);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle for %.160s", path);
    enum weft_status st = wf_file_open(path, &s->fd, &s->size, err);
    if (st != WEFT_OK) {
        wf_safetensors_free(s);
        return st;
    }
    return load(s, out, err);
}

enum weft_status wf_safetensors_open_bytes(const void *bytes, size_t len, const char *source,
                                           struct wf_safetensors **out, struct weft_error *err)
{
    struct wf_safetensors *s = new_file(source);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle for %.160s", source);
    s->bytes = bytes;
    s->size = len;
    return load(s, out, err);
}

void wf_safetensors_free(struct wf_safetensors *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        close(s->fd);
    json_decref(s->header);
    free(s->tensors);
    free(s->by_name);
    free(s->path);
    free(s);
}

size_t wf_safetensors_count(const struct wf_safetensors *s)
{
    return s->n_tensors;
}

const struct wf_safetensors_tensor *wf_safetensors_at(const struct wf_safetensors *s, size_t i)
{
    return &s->tensors[i];
}

const struct wf_safetensors_tensor *wf_safetensors_find(const struct wf_safetensors *s,
                                                        const char *name)
{
    struct wf_safetensors_tensor wanted = {.name = name};
    const struct wf_safetensors_tensor *key = &wanted, **found;
    found = bsearch(&key, s->by_name, s->n_tensors, sizeof *s->by_name, compare_names);
    return found != NULL ? *found : NULL;
}

const char *wf_safetensors_metadata(const struct wf_safetensors *s, const char *key)
{
    return json_string_value(json_object_get(s->metadata, key));
}

const char *wf_safetensors_path(const struct wf_safetensors *s)
{
    return s->path;
}

/* -- the data ------------------------------------------------------------------------------ */

static void widen(const uint16_t *halves, size_t n, enum wf_dtype type, float *out)
{
    if (type == WF_DTYPE_BF16) {
        for (size_t i = 0; i < n; i++)
            out[i] = wf_f32_from_bf16(halves[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            out[i] = wf_f32_from_f16(halves[i]);
    }
}

enum weft_status wf_safetensors_read(const struct wf_safetensors *s,
                                     const struct wf_safetensors_tensor *t, uint64_t first,
                                     size_t n, float *out, struct weft_error *err)
{
    if (!t->readable)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: tensor '%s' has the dtype %s (expected F32, BF16 or F16)",
                         s->path, wf_printable(t->name).at, t->dtype);
    if (first > t->n || n > t->n - first)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: tensor '%s' has %" PRIu64 " elements; %zu from %" PRIu64
                         " are out of range",
                         s->path, wf_printable(t->name).at, t->n, n, first);

    uint64_t offset = s->data_start + t->begin + first * wf_dtype_size(t->type);
    if (t->type == WF_DTYPE_F32)
        return read_bytes(s, offset, out, n * sizeof *out, err);
    uint16_t halves[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = wf_size_min(n - i, CHUNK);
        WEFT_TRY(read_bytes(s, offset + 2 * i, halves, 2 * part, err));
        widen(halves, part, t->type, out + i);
    }
    return WEFT_OK;
}
