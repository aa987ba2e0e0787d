/* Shapes of the tensors at a boundary: sizes, offsets and text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"
#include "weft/tensor.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [WEFT_DTYPE_NONE] = {"?", 0},        [WEFT_DTYPE_F64] = {"f64", 8},
    [WEFT_DTYPE_F32] = {"f32", 4},       [WEFT_DTYPE_F16] = {"f16", 2},
    [WEFT_DTYPE_BF16] = {"bf16", 2},     [WEFT_DTYPE_F8E4M3] = {"f8e4m3", 1},
    [WEFT_DTYPE_F8E5M2] = {"f8e5m2", 1}, [WEFT_DTYPE_I64] = {"i64", 8},
    [WEFT_DTYPE_I32] = {"i32", 4},       [WEFT_DTYPE_I16] = {"i16", 2},
    [WEFT_DTYPE_I8] = {"i8", 1},         [WEFT_DTYPE_U64] = {"u64", 8},
    [WEFT_DTYPE_U32] = {"u32", 4},       [WEFT_DTYPE_U16] = {"u16", 2},
    [WEFT_DTYPE_U8] = {"u8", 1},         [WEFT_DTYPE_BOOL] = {"bool", 1},
    [WEFT_DTYPE_C64] = {"c64", 8},       [WEFT_DTYPE_C128] = {"c128", 16},
};

size_t weft_dtype_bytes(enum weft_dtype type)
{
    return (size_t)type < WEFT_LEN(types) ? types[type].bytes : 0;
}

const char *weft_dtype_name(enum weft_dtype type)
{
    return (size_t)type < WEFT_LEN(types) ? types[type].name : "?";
}

/* -- sizes --------------------------------------------------------------------------------- */

/* Computes the bytes of one tensor; returns false on overflow. */
static bool tensor_bytes(const struct weft_tensor_shape *t, uint32_t rows, size_t *out)
{
    if (!wf_size_mul(weft_dtype_bytes(t->dtype), rows, out))
        return false;
    for (uint32_t i = 0; i < t->ndim; i++)
        if (!wf_size_mul(*out, (size_t)t->dims[i], out))
            return false;
    return *out <= SIZE_MAX / 4;
}

/* Computes the end of the first n tensors; returns false on overflow. */
static bool tensors_end(const struct weft_tensor_shape *at, uint32_t n, uint32_t rows,
                        size_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes;
        if (!tensor_bytes(&at[i], rows, &bytes) || *out > SIZE_MAX / 4)
            return false;
        *out = wf_size_round_up(*out, WEFT_TENSOR_ALIGN) + bytes;
    }
    return *out <= SIZE_MAX / 4;
}

enum weft_status weft_tensors_bytes(const struct weft_tensor_shape *at, uint32_t n,
                                    uint32_t rows, size_t *out, struct weft_error *err)
{
    size_t bytes;
    if (out == NULL || (at == NULL && n > 0))
        return WEFT_FAIL(err, WEFT_USAGE, "the list of %u tensors or the result is NULL", n);
    if (n > WEFT_MAX_TENSORS)
        return WEFT_FAIL(err, WEFT_USAGE, "%u tensors at one boundary (expected at most %d)", n,
                         WEFT_MAX_TENSORS);

    for (uint32_t i = 0; i < n; i++) {
        if (at[i].ndim < 1 || at[i].ndim > WEFT_MAX_DIMS)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "tensor %u has %u dimensions (expected 1 to %d, rows first)", i,
                             at[i].ndim, WEFT_MAX_DIMS);
        if (weft_dtype_bytes(at[i].dtype) == 0)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "tensor %u has the element type %d, which does not exist", i,
                             (int)at[i].dtype);
    }

    if (!tensors_end(at, n, rows, &bytes))
        return WEFT_FAIL(err, WEFT_NOMEM, "%u tensors of %u rows are too large", n, rows);
    *out = bytes;
    return WEFT_OK;
}

size_t weft_tensors_offset(const struct weft_tensor_shape *at, uint32_t n, uint32_t rows,
                           uint32_t index)
{
    size_t end;
    if (at == NULL || index >= n || !tensors_end(at, index, rows, &end))
        return SIZE_MAX;
    return wf_size_round_up(end, WEFT_TENSOR_ALIGN);
}

/* -- text ---------------------------------------------------------------------------------- */

enum { TENSOR_TEXT = 16 + WEFT_MAX_DIMS * 21 }; /* maximum length of one tensor's text */

static size_t print_tensor(const struct weft_tensor_shape *t, uint32_t rows, char *out)
{
    uint32_t ndim = t->ndim < WEFT_MAX_DIMS ? t->ndim : WEFT_MAX_DIMS;
    int n = snprintf(out, TENSOR_TEXT, "%s[", weft_dtype_name(t->dtype));
    for (uint32_t i = 0; i < ndim; i++)
        n += snprintf(out + n, TENSOR_TEXT - (size_t)n, "%s%" PRIu64, i == 0 ? "" : ",",
                      i == 0 ? rows * t->dims[0] : t->dims[i]);
    n += snprintf(out + n, TENSOR_TEXT - (size_t)n, "]");
    return (size_t)n;
}

void weft_tensors_print(const struct weft_tensor_shape *at, uint32_t n, uint32_t rows,
                        char *out, size_t size)
{
    enum { HASH_TEXT = 17 };
    char text[WEFT_MAX_TENSORS * TENSOR_TEXT];
    size_t len = 0;
    if (out == NULL || size == 0)
        return;
    for (uint32_t i = 0; at != NULL && i < n && i < WEFT_MAX_TENSORS; i++) {
        if (i > 0)
            text[len++] = ' ';
        len += print_tensor(&at[i], rows, text + len);
    }
    text[len] = '\0';
    snprintf(out, size, "%s", text);
    if (len < size || size <= HASH_TEXT)
        return;
    snprintf(out + size - 1 - HASH_TEXT, HASH_TEXT + 1, "#%016" PRIx64, wf_hash(0, text, len));
}
