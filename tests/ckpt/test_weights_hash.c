/* Tests the hash of weights against the same bytes hashed at once, and what changes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/ckpt/weights_hash.h"

enum { ROWS = 211, COLS = 313, FEW = 3 }; /* more elements than one read; a few */

static const struct weft_model model = {.arch = WEFT_ARCH_GPT2,
                                        .layers = 1,
                                        .dim = 4,
                                        .heads = 2,
                                        .kv_heads = 2,
                                        .ffn = 16,
                                        .vocab = 8,
                                        .ctx = 8,
                                        .tied = true,
                                        .norm_eps = 1e-5F};

static const struct wf_hf_tensor tensors[] = {{"transformer.b", 2, {ROWS, COLS}},
                                              {"transformer.a", 1, {FEW}}};

/* Returns half of a small integer, which BF16 represents exactly. */
static float value_at(size_t i)
{
    return (float)((int)(i % 101) - 50) * 0.5F;
}

static void write_model(const char *dir, enum wf_dtype type, uint64_t shard_bytes,
                        size_t changed)
{
    const struct wf_hf_write_options options = {.type = type, .shard_bytes = shard_bytes};
    struct wf_hf_writer *w = NULL;
    float *values = malloc(sizeof *values * ROWS * COLS);
    assert_non_null(values);
    for (size_t i = 0; i < ROWS * COLS; i++)
        values[i] = value_at(i) + (i == changed ? 1 : 0);
    assert_int_equal(wf_hf_writer_new(dir, &model, tensors, 2, &options, &w, NULL), WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, ROWS * COLS, NULL), WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values + 1, FEW, NULL), WEFT_OK);
    assert_int_equal(wf_hf_writer_finish(w, NULL), WEFT_OK);
    wf_hf_writer_free(w);
    free(values);
}

static void hash_of(const char *dir, char out[WF_HASH_HEX_SIZE])
{
    struct wf_weights *w = NULL;
    assert_int_equal(wf_weights_open(dir, &w, NULL), WEFT_OK);
    assert_int_equal(wf_weights_hash(w, tensors, 2, out, NULL), WEFT_OK);
    wf_weights_free(w);
}

/* All hashed bytes in order, as the header defines them. */
struct bytes {
    unsigned char *at;
    size_t n;
};

static void put(struct bytes *b, const void *from, size_t n)
{
    memcpy(b->at + b->n, from, n);
    b->n += n;
}

static void put_number(struct bytes *b, uint64_t number, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        b->at[b->n++] = (unsigned char)(number >> (8 * i));
}

static void put_values(struct bytes *b, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float value = value_at(first + i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        put_number(b, bits, 4);
    }
}

static void check_bytes(void **state)
{
    (void)state;
    struct folder f;
    struct bytes b = {malloc(1000 + 4 * (ROWS * COLS + FEW)), 0};
    char want[WF_HASH_HEX_SIZE], got[WF_HASH_HEX_SIZE];

    assert_non_null(b.at);
    put(&b, "transformer.b", 14);
    put_number(&b, 2, 8);
    put_number(&b, ROWS, 8);
    put_number(&b, COLS, 8);
    put_values(&b, 0, ROWS * COLS);

    put(&b, "transformer.a", 14);
    put_number(&b, 1, 8);
    put_number(&b, FEW, 8);
    put_values(&b, 1, FEW);

    XXH128_hash_t hash = XXH3_128bits(b.at, b.n);
    snprintf(want, sizeof want, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);

    folder_make(&f);
    write_model(folder_path(&f, "m"), WF_DTYPE_F32, 0, SIZE_MAX);
    hash_of(folder_path(&f, "m"), got);
    assert_string_equal(got, want);

    folder_remove(f.at);
    free(b.at);
}

static void check_layouts(void **state)
{
    (void)state;
    struct folder f;
    char whole[WF_HASH_HEX_SIZE], other[WF_HASH_HEX_SIZE];
    folder_make(&f);
    write_model(folder_path(&f, "whole"), WF_DTYPE_F32, 0, SIZE_MAX);
    hash_of(folder_path(&f, "whole"), whole);
    write_model(folder_path(&f, "cut"), WF_DTYPE_F32, 1, SIZE_MAX); /* one file per tensor */
    hash_of(folder_path(&f, "cut"), other);
    assert_string_equal(other, whole);
    write_model(folder_path(&f, "bf16"), WF_DTYPE_BF16, 0, SIZE_MAX);
    hash_of(folder_path(&f, "bf16"), other);
    assert_string_equal(other, whole);
    write_model(folder_path(&f, "changed"), WF_DTYPE_F32, 0, ROWS * COLS - 1);
    hash_of(folder_path(&f, "changed"), other);
    assert_string_not_equal(other, whole);
    folder_remove(f.at);
}

static void check_refused(void **state)
{
    (void)state;
    const struct wf_hf_tensor transposed = {"transformer.b", 2, {COLS, ROWS}},
                              missing = {"transformer.c", 1, {FEW}};
    struct folder f;
    struct wf_weights *w = NULL;
    struct weft_error err = {0};
    char out[WF_HASH_HEX_SIZE] = "untouched";
    folder_make(&f);
    write_model(folder_path(&f, "m"), WF_DTYPE_F32, 0, SIZE_MAX);
    assert_int_equal(wf_weights_open(folder_path(&f, "m"), &w, NULL), WEFT_OK);
    assert_int_equal(wf_weights_hash(w, &transposed, 1, out, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "(211, 313)"));
    assert_int_equal(wf_weights_hash(w, &missing, 1, out, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "transformer.c"));
    assert_string_equal(out, "untouched");
    wf_weights_free(w);
    folder_remove(f.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"the bytes that the header defines", check_bytes, NULL, NULL, NULL},
        {"depends on values, not on files and types", check_layouts, NULL, NULL, NULL},
        {"a missing tensor or another shape is refused", check_refused, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL) != 0;
}
