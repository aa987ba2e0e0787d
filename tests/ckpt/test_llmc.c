/* Tests that model files of llm.c, converted here from a Hugging Face directory, yield the
 * values of that directory, and that damaged files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/folder.h"
#include "training/ckpt/hf.h"
#include "training/ckpt/llmc.h"
#include "training/ckpt/weights.h"

#define TINY WEFT_TEST_DATA "/train/gpt2-tiny"

enum { HEADER = 256 };

/* -- writing, as llm.c does it ------------------------------------------------------------- */

struct file {
    FILE *out;
    bool bf16;
};

static void put(struct file *f, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                              (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
    fwrite(f->bf16 ? bytes + 2 : bytes, 1, f->bf16 ? 2 : 4, f->out);
}

static float *get(const struct wf_hf *hf, const char *name, size_t rows, size_t cols)
{
    float *out = malloc(rows * (cols == 0 ? 1 : cols) * sizeof *out);
    const uint64_t shape[2] = {rows, cols};
    struct weft_error err = {.msg = ""};
    if (wf_hf_read(hf, name, cols == 0 ? 1 : 2, shape, out, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return out;
}

/* Writes a matrix (rows, cols) with rows of zeros up to `padded`. */
static void put_matrix(struct file *f, const struct wf_hf *hf, const char *name, size_t rows,
                       size_t cols, size_t padded)
{
    float *m = get(hf, name, rows, cols);
    for (size_t i = 0; i < padded * cols; i++)
        put(f, i < rows * cols ? m[i] : 7.0F);
    free(m);
}

/* Writes one kind of tensor for all layers.  Matrices are (in, out) in the directory. */
static void put_kind(struct file *f, const struct wf_hf *hf, uint32_t layers, const char *kind,
                     size_t in, size_t out)
{
    for (uint32_t l = 0; l < layers; l++) {
        char name[100];
        snprintf(name, sizeof name, "transformer.h.%u.%s", l, kind);
        float *m = get(hf, name, in, out);
        for (size_t o = 0; o < (out == 0 ? 1 : out); o++)
            for (size_t i = 0; i < in; i++)
                put(f, m[out == 0 ? i : i * out + o]);
        free(m);
    }
}

static void write_model(const char *path, const struct wf_hf *hf, bool bf16, uint32_t padded)
{
    const struct weft_model *m = wf_hf_model(hf);
    size_t c = m->dim, l = m->layers;
    int32_t header[HEADER] = {20240326,          bf16 ? 5 : 3,       (int32_t)m->ctx,
                              (int32_t)m->vocab, (int32_t)m->layers, (int32_t)m->heads,
                              (int32_t)m->dim,   (int32_t)padded};

    struct file f = {fopen(path, "wb"), bf16};
    assert_non_null(f.out);
    assert_int_equal(m->ffn, 4 * m->dim);
    fwrite(header, sizeof header, 1, f.out); /* the tests run on little-endian machines */

    put_matrix(&f, hf, "transformer.wte.weight", m->vocab, c, padded);
    put_matrix(&f, hf, "transformer.wpe.weight", m->ctx, c, m->ctx);

    put_kind(&f, hf, l, "ln_1.weight", c, 0);
    put_kind(&f, hf, l, "ln_1.bias", c, 0);
    put_kind(&f, hf, l, "attn.c_attn.weight", c, 3 * c);
    put_kind(&f, hf, l, "attn.c_attn.bias", 3 * c, 0);
    put_kind(&f, hf, l, "attn.c_proj.weight", c, c);
    put_kind(&f, hf, l, "attn.c_proj.bias", c, 0);
    put_kind(&f, hf, l, "ln_2.weight", c, 0);
    put_kind(&f, hf, l, "ln_2.bias", c, 0);
    put_kind(&f, hf, l, "mlp.c_fc.weight", c, 4 * c);
    put_kind(&f, hf, l, "mlp.c_fc.bias", 4 * c, 0);
    put_kind(&f, hf, l, "mlp.c_proj.weight", 4 * c, c);
    put_kind(&f, hf, l, "mlp.c_proj.bias", c, 0);

    float *w = get(hf, "transformer.ln_f.weight", c, 0);
    for (size_t i = 0; i < c; i++)
        put(&f, w[i]);
    free(w);
    w = get(hf, "transformer.ln_f.bias", c, 0);
    for (size_t i = 0; i < c; i++)
        put(&f, w[i]);
    free(w);

    assert_int_equal(fclose(f.out), 0);
}

/* -- reading ------------------------------------------------------------------------------- */

/* Truncates to bf16, as the writer above does. */
static float kept(float value, bool bf16)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= bf16 ? 0xffff0000 : 0xffffffff;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void check_tensor(const struct wf_weights *got, const struct wf_hf *want,
                         const char *name, size_t rows, size_t cols, bool bf16)
{
    size_t n = rows * (cols == 0 ? 1 : cols);
    float *a = get(want, name, rows, cols), *b = malloc(n * sizeof *b);
    const uint64_t shape[2] = {rows, cols};
    struct weft_error err = {.msg = ""};
    if (wf_weights_read(got, name, cols == 0 ? 1 : 2, shape, b, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++)
        if (b[i] != kept(a[i], bf16))
            fail_msg("%s, element %zu: %g, want %g", name, i, b[i], a[i]);
    free(a);
    free(b);
}

static void check_file(bool bf16, uint32_t padding)
{
    struct folder folder = folder_new();
    const char *path = folder_in(&folder, "gpt2.bin");
    struct wf_hf *hf = NULL;
    struct wf_weights *w = NULL;
    struct weft_error err = {.msg = ""};

    assert_int_equal(wf_hf_open(TINY, &hf, NULL), WEFT_OK);
    const struct weft_model *m = wf_hf_model(hf);
    write_model(path, hf, bf16, m->vocab + padding);
    if (wf_weights_open(path, &w, &err) != WEFT_OK)
        fail_msg("%s", err.msg);

    const struct wf_weights_info *info = wf_weights_info(w);
    assert_int_equal(info->model.arch, WEFT_ARCH_GPT2);
    assert_int_equal(info->model.vocab, m->vocab);
    assert_int_equal(info->model.ctx, m->ctx);
    assert_int_equal(info->model.layers, m->layers);
    assert_int_equal(info->model.heads, m->heads);
    assert_int_equal(info->model.ffn, m->ffn);
    assert_true(info->model.tied);
    assert_int_equal(info->eos, -1);

    size_t c = m->dim;
    check_tensor(w, hf, "transformer.wte.weight", m->vocab, c, bf16);
    check_tensor(w, hf, "transformer.wpe.weight", m->ctx, c, bf16);
    check_tensor(w, hf, "transformer.h.0.ln_1.weight", c, 0, bf16);
    check_tensor(w, hf, "transformer.h.3.attn.c_attn.weight", c, 3 * c, bf16);
    check_tensor(w, hf, "transformer.h.1.attn.c_attn.bias", 3 * c, 0, bf16);
    check_tensor(w, hf, "transformer.h.2.attn.c_proj.weight", c, c, bf16);
    check_tensor(w, hf, "transformer.h.3.mlp.c_fc.weight", c, 4 * c, bf16);
    check_tensor(w, hf, "transformer.h.0.mlp.c_fc.bias", 4 * c, 0, bf16);
    check_tensor(w, hf, "transformer.h.3.mlp.c_proj.weight", 4 * c, c, bf16);
    check_tensor(w, hf, "transformer.h.3.mlp.c_proj.bias", c, 0, bf16);
    check_tensor(w, hf, "transformer.ln_f.weight", c, 0, bf16);
    check_tensor(w, hf, "transformer.ln_f.bias", c, 0, bf16);

    wf_weights_free(w);
    wf_hf_free(hf);
    folder_remove(&folder);
}

static void files_are_read(void **state)
{
    (void)state;
    check_file(false, 0);
    check_file(false, 31);
    check_file(true, 1);
}

/* -- damaged files ------------------------------------------------------------------------- */

static struct broken_case {
    const char *name;
    int32_t header[8]; /* of a model of 90 elements: 1 layer of dimension 2 */
    long bytes;        /* after the header */
    const char *want;
} broken[] = {
    {"well-formed", {20240326, 3, 2, 3, 1, 1, 2, 4}, 360, NULL},
    {"well-formed bf16", {20240326, 5, 2, 3, 1, 1, 2, 4}, 180, NULL},
    {"truncated", {20240326, 3, 2, 3, 1, 1, 2, 4}, 359, "1383 bytes"},
    {"too long", {20240326, 3, 2, 3, 1, 1, 2, 4}, 361, "describes 1384"},
    {"another type", {20240326, 5, 2, 3, 1, 1, 2, 4}, 360, "describes 1204"},
    {"magic", {20240327, 3, 2, 3, 1, 1, 2, 4}, 360, "begins with 20240327"},
    {"Llama", {20240803, 3, 2, 3, 1, 1, 2, 4}, 360, "a Llama model of llm.c"},
    {"version", {20240326, 4, 2, 3, 1, 1, 2, 4}, 360, "version 4"},
    {"no layers", {20240326, 3, 2, 3, 0, 1, 2, 4}, 360, "number of layers is 0"},
    {"negative", {20240326, 3, 2, -3, 1, 1, 2, 4}, 360, "vocabulary is 4294967293"},
    {"padding", {20240326, 3, 2, 3, 1, 1, 2, 2}, 360, "padded to 2"},
    {"heads", {20240326, 3, 2, 3, 1, 3, 2, 4}, 360, "heads"},
    {"huge",
     {20240326, 3, 1 << 24, 1 << 24, 1 << 20, 1, 1 << 24, 1 << 24},
     0,
     "describes a model that is too large"},
    {"no header", {20240326, 3, 2, 3, 1, 1, 2, 4}, -1, "1023 bytes"},
    {"empty", {0}, -1024, "0 bytes"},
};

static void broken_files_are_refused(void **state)
{
    const struct broken_case *c = *state;
    struct folder folder = folder_new();
    const char *path = folder_in(&folder, "gpt2.bin");
    struct wf_llmc *f = NULL;
    struct weft_error err = {.msg = ""};
    int32_t header[HEADER] = {0};

    FILE *out = fopen(path, "wb");
    memcpy(header, c->header, sizeof c->header);
    fwrite(header, 1, (size_t)(c->bytes < 0 ? 1024 + c->bytes : 1024), out);
    for (long i = 0; i < c->bytes; i++)
        fputc(0, out);
    assert_int_equal(fclose(out), 0);

    enum weft_status st = wf_llmc_open(path, &f, &err);
    if (c->want == NULL) {
        float values[8];
        const uint64_t shape[] = {3, 2}, other[] = {2, 3};
        assert_int_equal(st, WEFT_OK);
        assert_int_equal(wf_llmc_read(f, "transformer.wte.weight", 2, shape, values, NULL),
                         WEFT_OK);

        static const char *const names[] = {"wte.weight",
                                            "transformer.h.1.ln_1.bias",
                                            "transformer.h.0.ln_f.bias",
                                            "transformer.ln_1.bias",
                                            "transformer.h.99999999999.ln_1.bias",
                                            ""};
        for (size_t i = 0; i < WEFT_LEN(names); i++)
            assert_int_equal(wf_llmc_read(f, names[i], 2, shape, values, &err), WEFT_CKPT);

        assert_int_equal(wf_llmc_read(f, "transformer.wte.weight", 2, other, values, &err),
                         WEFT_CKPT);
        assert_int_equal(wf_llmc_read(f, "transformer.wte.weight", 1, shape, values, &err),
                         WEFT_CKPT);
    } else {
        assert_int_equal(st, WEFT_CKPT);
        if (strstr(err.msg, c->want) == NULL)
            fail_msg("%s", err.msg);
    }

    wf_llmc_free(f);
    folder_remove(&folder);
}

static void missing_tensors_are_reported(void **state)
{
    struct wf_weights *w = NULL;
    struct weft_error err = {.msg = ""};
    (void)state;
    assert_int_equal(wf_weights_open("/nowhere/at/all", &w, &err), WEFT_CKPT);
    assert_int_equal(wf_weights_open("/dev/null", &w, &err), WEFT_CKPT);
    assert_int_equal(wf_weights_open("/tmp", &w, &err), WEFT_CKPT);
    assert_null(w);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(broken) + 2];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(files_are_read);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(missing_tensors_are_reported);
    for (size_t i = 0; i < WEFT_LEN(broken); i++)
        tests[n++] = (struct CMUnitTest){broken[i].name, broken_files_are_refused, NULL, NULL,
                                         &broken[i]};
    return cmocka_run_group_tests_name("llmc", tests, NULL, NULL) != 0;
}
