/* Tests the reader of safetensors files: refused files and their messages, conversions
 * bit by bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/ckpt/half.h"
#include "training/ckpt/safetensors.h"

/* -- files by hand ------------------------------------------------------------------------- */

/* Returns eight bytes with `length`, the header, and n_data bytes 0, 1, 2, ...  The
 * caller frees them. */
static char *make_file(uint64_t length, const char *header, size_t header_len, size_t n_data,
                       size_t *len)
{
    *len = 8 + header_len + n_data;
    char *bytes = malloc(*len);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> 8 * i);
    memcpy(bytes + 8, header, header_len);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + header_len + i] = (char)i;
    return bytes;
}

static char *make_right(const char *header, size_t n_data, size_t *len)
{
    return make_file(strlen(header), header, strlen(header), n_data, len);
}

#define T(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin    \
    "," #end "]}"

/* clang-format off */
static struct bad_case {
    const char *name, *header;
    size_t n_data;
    const char *want;
} bad_cases[] = {
    {"space first", " {}", 0, "f: byte 8: the header does not begin with '{'"},
    {"a list", "[1]", 0, "byte 8: the header does not begin with '{'"},
    {"ends in a line", "{}\n", 0, "byte 10: the header does not end with '}' and spaces"},
    {"ends in a tab", "{} \t", 0, "byte 11: the header does not end with"},
    {"only spaces after {", "{  ", 0, "byte 8: the header does not end with"},
    {"not JSON", "{\"a\":}", 0, "the header is not valid JSON: unexpected token near '}'"},
    {"two objects", "{}{}", 0, "byte 11: the header is not valid JSON: end of file expected"},
    {"not UTF-8", "{\"\xff\":{}}", 0, "the header is not valid JSON: unable to decode byte 0xff"},
    {"a name twice", "{" T("a", "F32", "1", 0, 4) "," T("a", "F32", "1", 0, 4) "}", 4,
     "not valid JSON: duplicate object key near '\"a\"'"},
    {"a name twice, escaped", "{" T("a", "F32", "1", 0, 4) "," T("\\u0061", "F32", "1", 0, 4) "}", 4,
     "not valid JSON: duplicate object key"},
    {"dtype twice", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
     4, "not valid JSON: duplicate object key"},
    {"too deep", "{\"a\":[[[[", 0, "the header does not end with"},
    {"deeper than 4", "{\"a\":[[[[]]]]}", 0, "byte 16: the header is nested deeper than 4 levels"},
    {"metadata of another type", "{\"__metadata__\":[]}", 0, "f: __metadata__ is not an object"},
    {"metadata's value", "{\"__metadata__\":{\"step\":3}}", 0, "__metadata__ 'step' is not a string"},
    {"empty name", "{" T("", "F32", "1", 0, 4) "}", 4, "the name of tensor '' is empty"},
    {"name with a slash", "{" T("a/b", "F32", "1", 0, 4) "}", 4, "'a/b' contains '/' or '..'"},
    {"name with dots", "{" T("a..b", "F32", "1", 0, 4) "}", 4, "'a..b' contains '/' or '..'"},
    {"name with an escape", "{" T("a\\u001b[1m", "F32", "1", 0, 4) "}", 4,
     "'a?[1m' has bytes that are not printable ASCII"},
    {"name with an umlaut", "{" T("\xc3\xa4", "F32", "1", 0, 4) "}", 4, "not printable ASCII"},
    {"name with NUL", "{" T("a\\u0000b", "F32", "1", 0, 4) "}", 4, "not valid JSON: NUL byte in object key"},
    {"no object", "{\"a\":3}", 0, "f: tensor 'a' is not an object"},
    {"no dtype", "{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "tensor 'a' has no dtype"},
    {"dtype of another type", "{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"unknown dtype", "{" T("a", "F31", "1", 0, 4) "}", 4, "has the unknown dtype 'F31'"},
    {"dtype in small letters", "{" T("a", "f32", "1", 0, 4) "}", 4, "has the unknown dtype 'f32'"},
    {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no shape"},
    {"negative dimension", "{" T("a", "F32", "-1", 0, 4) "}", 4, "has no shape"},
    {"dimension with fraction", "{" T("a", "F32", "1.0", 0, 4) "}", 4, "has no shape"},
    {"dimension is null", "{" T("a", "F32", "null", 0, 4) "}", 4, "has no shape"},
    {"dimension beyond 63 bits", "{" T("a", "F32", "9223372036854775808", 0, 4) "}", 4,
     "not valid JSON: too big integer"},
    {"nine dimensions", "{" T("a", "F32", "1,1,1,1,1,1,1,1,1", 0, 4) "}", 4,
     "has no shape (a list of at most 8 integers)"},
    {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "has no data_offsets"},
    {"one offset", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no data_offsets"},
    {"three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4,
     "has no data_offsets (two integers)"},
    {"an extra key", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
     "has keys other than dtype, shape and data_offsets"},
    {"elements overflow", "{" T("a", "F32", "4294967296,4294967296", 0, 0) "}", 0,
     "has a shape with too many elements"},
    {"bits overflow", "{" T("a", "F32", "1152921504606846976", 0, 0) "}", 0, "too many elements"},
    {"half a byte", "{" T("a", "F4", "3", 0, 2) "}", 2, "tensor 'a' does not fill whole bytes"},
    {"six bits", "{" T("a", "F6_E2M3", "2", 0, 2) "}", 2, "tensor 'a' does not fill whole bytes"},
    {"ends before it begins", "{" T("a", "F32", "1", 4, 0) "}", 4, "tensor 'a' ends before it begins"},
    {"ends after the file", "{" T("a", "F32", "2", 0, 8) "}", 4,
     "tensor 'a' ends at byte 8 of the data, which has 4; the file is truncated"},
    {"ends at the end of numbers", "{" T("a", "F32", "1", 9223372036854775803, 9223372036854775807) "}", 4,
     "ends at byte 9223372036854775807 of the data"},
    {"fewer bytes than its shape", "{" T("a", "F32", "2", 0, 4) "}", 4,
     "tensor 'a' has 4 bytes in data_offsets, but 8 by its shape and dtype"},
    {"gap at the start", "{" T("a", "F32", "1", 4, 8) "}", 8,
     "tensor 'a' begins at byte 4 of the data, but the one before it ends at 0: there is a gap"},
    {"gap", "{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 5, 9) "}", 9,
     "tensor 'b' begins at byte 5 of the data, but the one before it ends at 4: there is a gap"},
    {"overlap", "{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 3, 7) "}", 7,
     "tensor 'b' begins at byte 3 of the data, but the one before it ends at 4: they overlap"},
    {"the same bytes twice", "{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 0, 4) "}", 4, "they overlap"},
    {"trailing bytes", "{" T("a", "F32", "1", 0, 4) "}", 7, "byte 66: 3 bytes follow that belong to no tensor"},
    {"no tensors, but data", "{}", 1, "byte 10: 1 bytes follow that belong to no tensor"},
    {"an empty one in the middle of another",
     "{" T("a", "F32", "2", 0, 8) "," T("b", "F32", "0", 4, 4) "}", 8, "they overlap"},
};
/* clang-format on */

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    size_t len;
    char *bytes = make_right(c->header, c->n_data, &len);
    struct wf_safetensors *s = NULL;
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_safetensors_open_bytes(bytes, len, "f", &s, &err), WEFT_CKPT);
    if (strstr(err.msg, c->want) == NULL)
        fail_msg("'%s' is not in '%s'", c->want, err.msg);
    assert_null(s);
    assert_int_equal(strncmp(err.msg, "f: ", 3), 0);
    assert_int_equal(wf_safetensors_open_bytes(bytes, len, "f", &s, NULL), WEFT_CKPT);
    free(bytes);
}

/* Checks the length before the header. */
static void check_lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *want;
    } cases[] = {
        {0, "the header has 0 bytes (minimum 2)"},
        {1, "the header has 1 bytes (minimum 2)"},
        {3, "the header length is 3, but only 2 bytes follow; the file is truncated"},
        {UINT64_MAX, "the header length is 18446744073709551615, but only 2 bytes follow"},
        {UINT64_MAX - 7, "the header length is 18446744073709551608, but only 2 bytes follow"},
    };

    struct wf_safetensors *s = NULL;
    struct weft_error err;
    size_t len;

    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        char *bytes = make_file(cases[i].length, "{}", 2, 0, &len);
        assert_int_equal(wf_safetensors_open_bytes(bytes, len, "f", &s, &err), WEFT_CKPT);
        assert_non_null(strstr(err.msg, cases[i].want));
        free(bytes);
    }

    for (len = 0; len < 8; len++) {
        assert_int_equal(wf_safetensors_open_bytes("\2\0\0\0\0\0\0", len, "f", &s, &err),
                         WEFT_CKPT);
        assert_non_null(strstr(err.msg, "begins with 8 bytes"));
    }
}

/* Returns a header of `n` bytes: repetitions of `text`, then `end`. */
static char *repeat(const char *start, const char *text, const char *end, size_t n, size_t *len)
{
    char *header = malloc(n + strlen(end) + 1);
    assert_non_null(header);
    size_t at = strlen(start);
    memcpy(header, start, at);
    for (; at + strlen(text) <= n; at += strlen(text))
        memcpy(header + at, text, strlen(text));
    strcpy(header + at, end);
    char *bytes = make_right(header, 0, len);
    free(header);
    return bytes;
}

static void check_large(void **state)
{
    (void)state;
    static const struct {
        const char *start, *text, *end;
        size_t n;
        const char *want;
    } cases[] = {
        {"{", " ", "}", (16 << 20) + 1, "the header has 16777218 bytes (maximum 16777216)"},
        {"{\"a\":[0", ",0", "]}", 3 << 20, "the header has more than 1048576 values"},
        {"{\"a\":", "[", "}", 1 << 20, "nested deeper than 4 levels"},
        {"{\"", "a", "\":{}}", 1000, "has more than 512 bytes"},
        {"{\"", "a", "\":{}}", 3 << 20, "has more than 512 bytes"},
    };

    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        size_t len;
        char *bytes = repeat(cases[i].start, cases[i].text, cases[i].end, cases[i].n, &len);
        struct wf_safetensors *s = NULL;
        struct weft_error err;
        assert_int_equal(wf_safetensors_open_bytes(bytes, len, "f", &s, &err), WEFT_CKPT);
        if (strstr(err.msg, cases[i].want) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].want, err.msg);
        free(bytes);
    }
}

/* A file of 65,536 empty tensors is accepted, and one more tensor is an error. */
static void check_many(void **state)
{
    (void)state;
    for (size_t n = 65536; n <= 65537; n++) {
        char *header = malloc(n * 64 + 2), *at = header;
        assert_non_null(header);
        *at++ = '{';
        for (size_t i = 0; i < n; i++)
            at += sprintf(at,
                          "%s\"t%zu\":{\"dtype\":\"F32\",\"shape\":[0],"
                          "\"data_offsets\":[0,0]}",
                          i > 0 ? "," : "", i);
        strcpy(at, "}");

        size_t len;
        char *bytes = make_right(header, 0, &len);
        struct wf_safetensors *s = NULL;
        struct weft_error err;
        enum weft_status st = wf_safetensors_open_bytes(bytes, len, "f", &s, &err);

        if (n == 65536) {
            assert_int_equal(st, WEFT_OK);
            assert_int_equal(wf_safetensors_count(s), n);
            assert_non_null(wf_safetensors_find(s, "t65535"));
            assert_null(wf_safetensors_find(s, "t65536"));
        } else {
            assert_int_equal(st, WEFT_CKPT);
            assert_non_null(strstr(err.msg, "has 65537 tensors (maximum 65536)"));
        }

        wf_safetensors_free(s);
        free(bytes);
        free(header);
    }
}

/* Every truncated file is refused. */
static void check_cut(void **state)
{
    (void)state;
    size_t len;
    char *bytes =
        make_right("{" T("a", "F32", "2", 0, 8) "," T("b", "F16", "", 8, 10) "}", 10, &len);
    for (size_t n = 0; n <= len; n++) {
        char *part =
            malloc(n + 1); /* an exact allocation, so that sanitizers detect reads beyond it */
        assert_non_null(part);
        memcpy(part, bytes, n);
        struct wf_safetensors *s = NULL;
        enum weft_status st = wf_safetensors_open_bytes(part, n, "f", &s, NULL);
        assert_int_equal(st, n == len ? WEFT_OK : WEFT_CKPT);
        wf_safetensors_free(s);
        free(part);
    }
    free(bytes);
}

/* -- listing ------------------------------------------------------------------------------- */

static void check_listed(void **state)
{
    (void)state;
    /* Unsorted tensors, a scalar, empty tensors at both ends, an unreadable dtype, padding. */
    const char *header = "{" T(
        "b", "I64", "1", 12,
        20) ",\"__metadata__\":{\"format\":\"pt\","
            "\"k\":\"v\"}," T("a", "F32", "1,3", 0, 12) "," T("z", "BF16", "5,0", 22, 22) "," T(
                "s", "BF16", "", 20, 22) "," T("y", "F16", "0", 0, 0) "}     ";
    static const char *const order[] = {"y", "a", "b", "s", "z"};

    size_t len;
    char *bytes = make_right(header, 22, &len);
    struct wf_safetensors *s = NULL;
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_safetensors_open_bytes(bytes, len, "f", &s, &err), WEFT_OK);

    assert_int_equal(wf_safetensors_count(s), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(wf_safetensors_at(s, i)->name, order[i]);
        assert_ptr_equal(wf_safetensors_at(s, i), wf_safetensors_find(s, order[i]));
    }

    const struct wf_safetensors_tensor *a = wf_safetensors_find(s, "a");
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->shape[0], 1);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->n, 3);
    assert_int_equal(a->begin, 0);
    assert_int_equal(a->end, 12);
    assert_true(a->readable && a->type == WF_DTYPE_F32);
    assert_string_equal(a->dtype, "F32");

    const struct wf_safetensors_tensor *scalar = wf_safetensors_find(s, "s");
    assert_int_equal(scalar->n_dims, 0);
    assert_int_equal(scalar->n, 1);
    float value;
    assert_int_equal(wf_safetensors_read(s, scalar, 0, 1, &value, NULL), WEFT_OK);
    assert_true(value == wf_f32_from_bits(0x15140000));

    const struct wf_safetensors_tensor *b = wf_safetensors_find(s, "b");
    assert_false(b->readable);
    assert_int_equal(wf_safetensors_read(s, b, 0, 1, &value, &err), WEFT_CKPT);
    assert_string_equal(err.msg, "f: tensor 'b' has the dtype I64 (expected F32, BF16 or F16)");

    assert_null(wf_safetensors_find(s, "c"));
    assert_null(wf_safetensors_find(s, "__metadata__"));
    assert_string_equal(wf_safetensors_metadata(s, "k"), "v");
    assert_null(wf_safetensors_metadata(s, "x"));
    assert_string_equal(wf_safetensors_path(s), "f");

    assert_int_equal(wf_safetensors_read(s, a, 2, 2, &value, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "has 3 elements; 2 from 2 are out of range"));
    assert_int_equal(wf_safetensors_read(s, a, 4, 0, &value, &err), WEFT_CKPT);
    assert_int_equal(wf_safetensors_read(s, a, 3, 0, &value, &err), WEFT_OK);

    wf_safetensors_free(s);
    wf_safetensors_free(NULL);
    free(bytes);
}

/* Every dtype of the format is recognized and has the right size. */
static void check_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned bits;
    } all[] = {{"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"I16", 16},
               {"U16", 16},        {"I32", 32},        {"U32", 32},    {"I64", 64},
               {"U64", 64},        {"F16", 16},        {"BF16", 16},   {"F32", 32},
               {"F64", 64},        {"C64", 64},        {"F8_E5M2", 8}, {"F8_E4M3", 8},
               {"F8_E8M0", 8},     {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6},
               {"F8_E4M3FNUZ", 8}, {"F6_E3M2", 6}};

    for (size_t i = 0; i < WEFT_LEN(all); i++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%u]}}",
                 all[i].name, all[i].bits / 2);

        size_t len;
        char *bytes = make_right(header, all[i].bits / 2, &len);
        struct wf_safetensors *s = NULL;
        assert_int_equal(wf_safetensors_open_bytes(bytes, len, "f", &s, NULL), WEFT_OK);
        assert_string_equal(wf_safetensors_at(s, 0)->dtype, all[i].name);

        wf_safetensors_free(s);
        free(bytes);
    }
}

/* -- numbers ------------------------------------------------------------------------------- */

/* Converts F16 by its definition, in double. */
static double f16_value(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
        value = fraction == 0 ? INFINITY : NAN;
    return half & 0x8000 ? -value : value;
}

static void check_halves(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f16 = wf_f32_from_f16((uint16_t)h), bf16 = wf_f32_from_bf16((uint16_t)h);
        double want = f16_value((uint16_t)h);
        assert_true(isnan(want) ? isnan(f16) : f16 == (float)want && (double)f16 == want);
        assert_int_equal(signbit(f16) != 0, h >> 15);
        uint16_t back = wf_bf16_from_f32(bf16);
        assert_true(isnan(bf16) ? isnan(wf_f32_from_bf16(back)) : back == h);
    }
}

/* Each fp32 must round to the nearer of its two bf16 neighbours, and to the even one
 * in a tie. */
static void check_rounding(void **state)
{
    (void)state;
    uint32_t bits = 1;
    for (int i = 0; i < 200000; i++) {
        bits = bits * 1664525U + 1013904223U;
        uint32_t tried = i % 3 == 0 ? (bits & 0xffff0000) | 0x8000 : bits;
        float value = wf_f32_from_bits(tried);
        if (isnan(value)) {
            assert_true(isnan(wf_f32_from_bf16(wf_bf16_from_f32(value))));
            continue;
        }
        uint16_t below = (uint16_t)(tried >> 16), above = (uint16_t)(below + 1);
        uint32_t past = tried & 0xffff;
        uint16_t want = past < 0x8000 || (past == 0x8000 && below % 2 == 0) ? below : above;
        assert_int_equal(wf_bf16_from_f32(value), want);
    }
    assert_int_equal(wf_bf16_from_f32(wf_f32_from_bits(0x7f7fffff)), 0x7f80); /* infinity */
    assert_int_equal(wf_bf16_from_f32(wf_f32_from_bits(0x7f800001)), 0x7fc0); /* NaN */
    assert_int_equal(wf_bf16_from_f32(-0.0F), 0x8000);
}

/* -- files --------------------------------------------------------------------------------- */

/* Paths that are not regular files are errors. */
static void check_paths(void **state)
{
    (void)state;
    struct folder f;
    struct wf_safetensors *s = NULL;
    struct weft_error err;
    folder_make(&f);
    assert_int_equal(wf_safetensors_open(folder_path(&f, "none"), &s, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "/none cannot be opened: No such file"));
    assert_int_equal(wf_safetensors_open(f.at, &s, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "is not a regular file"));
    assert_int_equal(mkfifo(folder_path(&f, "pipe"), 0600), 0);
    assert_int_equal(wf_safetensors_open(f.path, &s, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "is not a regular file"));
    folder_remove(f.at);
}

/* A file that is truncated while it is open causes an error. */
static void check_shortened(void **state)
{
    (void)state;
    struct folder f;
    struct wf_safetensors *s = NULL;
    struct weft_error err;
    size_t len;
    char *bytes = make_right("{" T("a", "F32", "2", 0, 8) "}", 8, &len);
    folder_make(&f);
    folder_put(&f, "m", bytes, len);
    assert_int_equal(wf_safetensors_open(folder_path(&f, "m"), &s, &err), WEFT_OK);
    assert_int_equal(truncate(f.path, (off_t)len - 2), 0);
    float values[2];
    assert_int_equal(wf_safetensors_read(s, wf_safetensors_at(s, 0), 0, 2, values, &err),
                     WEFT_CKPT);
    assert_non_null(strstr(err.msg, "it was truncated while being read"));
    wf_safetensors_free(s);
    folder_remove(f.at);
    free(bytes);
}

/* A sparse file of more than 8 GiB has offsets and counts beyond 32 bits. */
static void check_beyond_32_bits(void **state)
{
    (void)state;
    static const uint64_t n = ((uint64_t)1 << 31) + 5;
    struct folder f;
    struct wf_safetensors *s = NULL;
    struct weft_error err = {.msg = ""};
    char header[200];

    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"F32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]},"
             "\"b\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[%llu,%llu]}}",
             (unsigned long long)n, 4ULL * n, 4ULL * n, 4ULL * n + 2);
    size_t len;
    char *bytes = make_right(header, 0, &len);

    folder_make(&f);
    folder_put(&f, "m", bytes, len);
    /* Some disks do not support such files. */
    if (truncate(f.path, (off_t)(len + 4 * n)) == 0) {
        FILE *out = fopen(f.path, "ab");
        assert_non_null(out);
        assert_int_equal(fwrite("\x80\x3f", 1, 2, out), 2);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(wf_safetensors_open(f.path, &s, &err), WEFT_OK);
        float values[3] = {7, 7, 7};

        const struct wf_safetensors_tensor *a = wf_safetensors_find(s, "a");
        assert_int_equal(a->n, n);
        assert_int_equal(wf_safetensors_read(s, a, n - 2, 2, values, &err), WEFT_OK);
        assert_true(values[0] == 0 && values[1] == 0 && values[2] == 7);
        assert_int_equal(wf_safetensors_read(s, a, n - 2, 3, values, &err), WEFT_CKPT);

        const struct wf_safetensors_tensor *b = wf_safetensors_find(s, "b");
        assert_int_equal(wf_safetensors_read(s, b, 0, 1, values, &err), WEFT_OK);
        assert_true(values[0] == 1);
        wf_safetensors_free(s);
    }

    folder_remove(f.at);
    free(bytes);
}
int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(check_lengths),        cmocka_unit_test(check_large),
        cmocka_unit_test(check_many),           cmocka_unit_test(check_cut),
        cmocka_unit_test(check_listed),         cmocka_unit_test(check_dtypes),
        cmocka_unit_test(check_halves),         cmocka_unit_test(check_rounding),
        cmocka_unit_test(check_paths),          cmocka_unit_test(check_shortened),
        cmocka_unit_test(check_beyond_32_bits),
    };
    struct CMUnitTest tests[WEFT_LEN(bad_cases) + WEFT_LEN(others)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(bad_cases); i++)
        tests[n++] =
            (struct CMUnitTest){bad_cases[i].name, check_bad, NULL, NULL, &bad_cases[i]};
    for (size_t i = 0; i < WEFT_LEN(others); i++)
        tests[n++] = others[i];
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL) != 0;
}
