/* Reads model files of llm.c.  A table lists the tensors in the order of the file.  Their
 * offsets are computed when a file is opened, and a tensor is converted when it is read. */
#include "training/ckpt/llmc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "training/ckpt/half.h"

enum {
    MAGIC_GPT2 = 20240326,
    MAGIC_LLAMA = 20240803,
    VERSION_F32 = 3,
    VERSION_BF16 = 5,
    MAX_SIZE = 1 << 24, /* maximum of every number in the header */
};

/* The kinds of tensors in file order.  A tensor name is "transformer." or, for a tensor of
 * layer N, "transformer.h.N." followed by the name in this table.  Rows and columns are
 * multiples of the model dimension; 0 rows: the header determines the number of rows. */
static const struct kind {
    const char *name;
    bool per_layer, transposed;
    uint32_t rows, cols; /* shape as llm.c stores the tensor; 0 columns: a vector */
} kinds[] = {
    {"wte.weight", false, false, 0, 1},       {"wpe.weight", false, false, 0, 1},
    {"ln_1.weight", true, false, 1, 0},       {"ln_1.bias", true, false, 1, 0},
    {"attn.c_attn.weight", true, true, 3, 1}, {"attn.c_attn.bias", true, false, 3, 0},
    {"attn.c_proj.weight", true, true, 1, 1}, {"attn.c_proj.bias", true, false, 1, 0},
    {"ln_2.weight", true, false, 1, 0},       {"ln_2.bias", true, false, 1, 0},
    {"mlp.c_fc.weight", true, true, 4, 1},    {"mlp.c_fc.bias", true, false, 4, 0},
    {"mlp.c_proj.weight", true, true, 1, 4},  {"mlp.c_proj.bias", true, false, 1, 0},
    {"ln_f.weight", false, false, 1, 0},      {"ln_f.bias", false, false, 1, 0},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

struct wf_llmc {
    char *path; /* owned */
    int fd;     /* -1: not open */
    bool bf16;
    struct weft_model model;
    uint32_t padded;
    uint64_t begin[N_KINDS + 1]; /* number of elements in the file before each kind */
};

/* -- opening ------------------------------------------------------------------------------- */

static uint32_t number_at(const unsigned char *header, size_t i)
{
    const unsigned char *b = header + 4 * i;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static enum weft_status check_kind(struct wf_llmc *f, const unsigned char *header,
                                   struct weft_error *err)
{
    uint32_t magic = number_at(header, 0), version = number_at(header, 1);
    if (magic == MAGIC_LLAMA)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s is a Llama model of llm.c, whose header does not describe the "
                         "whole model; convert the original Hugging Face directory",
                         f->path);
    if (magic != MAGIC_GPT2)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s is not an llm.c model: it begins with %u (expected %d)",
                         f->path, magic, MAGIC_GPT2);
    if (version != VERSION_F32 && version != VERSION_BF16)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s has version %u (expected 3 for fp32 or 5 for bf16)", f->path,
                         version);
    f->bf16 = version == VERSION_BF16;
    return WEFT_OK;
}

static enum weft_status read_model(struct wf_llmc *f, const unsigned char *header,
                                   struct weft_error *err)
{
    static const char *const names[] = {"maximum sequence", "vocabulary", "number of layers",
                                        "number of heads",  "dimension",  "padded vocabulary"};
    uint32_t v[WEFT_LEN(names)];
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        v[i] = number_at(header, 2 + i);
        if (v[i] == 0 || v[i] > MAX_SIZE)
            return WEFT_FAIL(err, WEFT_CKPT, "%.160s: its %s is %u (expected 1 to %d)", f->path,
                             names[i], v[i], MAX_SIZE);
    }

    f->padded = v[5];
    if (f->padded < v[1])
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: a vocabulary of %u is padded to %u", f->path,
                         v[1], f->padded);
    f->model = (struct weft_model){.arch = WEFT_ARCH_GPT2,
                                   .layers = v[2],
                                   .dim = v[4],
                                   .heads = v[3],
                                   .kv_heads = v[3],
                                   .ffn = 4 * v[4],
                                   .vocab = v[1],
                                   .ctx = v[0],
                                   .tied = true,
                                   .norm_eps = WEFT_NORM_EPS_DEFAULT};
    struct weft_error why = {.msg = ""};
    if (weft_model_check(&f->model, &why) != WEFT_OK)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %.240s", f->path, why.msg);
    return WEFT_OK;
}

/* Computes the number of rows and columns that a tensor of this kind has in the file. */
static void shape_of(const struct wf_llmc *f, size_t kind, uint64_t *rows, uint64_t *cols)
{
    uint64_t dim = f->model.dim;
    *rows = kind == 0 ? f->padded : kind == 1 ? f->model.ctx : kinds[kind].rows * dim;
    *cols = kinds[kind].cols == 0 ? 1 : kinds[kind].cols * dim;
}

static enum weft_status place_tensors(struct wf_llmc *f, uint64_t file_bytes,
                                      struct weft_error *err)
{
    uint64_t end = 0;
    bool fits = true;
    for (size_t i = 0; i < N_KINDS; i++) {
        uint64_t rows, cols, n;
        shape_of(f, i, &rows, &cols);
        f->begin[i] = end;
        fits = fits && wf_size_mul(rows, cols, &n) &&
               wf_size_mul(n, kinds[i].per_layer ? f->model.layers : 1, &n) &&
               wf_size_add(end, n, &end);
    }

    f->begin[N_KINDS] = end;
    uint64_t expected;
    if (!fits || !wf_size_mul(end, f->bf16 ? 2 : 4, &expected) ||
        !wf_size_add(expected, WF_LLMC_HEADER_BYTES, &expected))
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: its header describes a model that is too large", f->path);
    if (expected != file_bytes)
        return WEFT_FAIL(
            err, WEFT_CKPT,
            "%.160s has %llu bytes, but its header describes %llu; it is truncated "
            "or not a model file",
            f->path, (unsigned long long)file_bytes, (unsigned long long)expected);
    return WEFT_OK;
}

static enum weft_status open_file(struct wf_llmc *f, struct weft_error *err)
{
    unsigned char header[WF_LLMC_HEADER_BYTES];
    uint64_t size;
    WEFT_TRY(wf_file_open(f->path, &f->fd, &size, err));
    if (size < sizeof header)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s has %llu bytes; the header of an llm.c model has %zu", f->path,
                         (unsigned long long)size, sizeof header);
    WEFT_TRY(wf_file_read_at(f->fd, f->path, 0, header, sizeof header, err));
    WEFT_TRY(check_kind(f, header, err));
    WEFT_TRY(read_model(f, header, err));
    return place_tensors(f, size, err);
}

enum weft_status wf_llmc_open(const char *path, struct wf_llmc **out, struct weft_error *err)
{
    struct wf_llmc *f = calloc(1, sizeof *f);
    if (f == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle for %.160s", path);
    f->fd = -1;
    f->path = strdup(path);
    enum weft_status st = f->path == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a file")
                              : open_file(f, err);
    if (st == WEFT_OK)
        *out = f;
    else
        wf_llmc_free(f);
    return st;
}

void wf_llmc_free(struct wf_llmc *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f);
}

const struct weft_model *wf_llmc_model(const struct wf_llmc *f)
{
    return &f->model;
}

void wf_llmc_sizes(const struct wf_llmc *f, uint64_t *n_tensors, uint64_t *n_elements)
{
    *n_tensors = 0;
    for (size_t i = 0; i < N_KINDS; i++)
        *n_tensors += kinds[i].per_layer ? f->model.layers : 1;
    *n_elements = f->begin[N_KINDS] - (uint64_t)(f->padded - f->model.vocab) * f->model.dim;
}

/* -- reading ------------------------------------------------------------------------------- */

/* Finds the kind and the layer of a tensor.  Returns false if the name is unknown. */
static bool find(const struct wf_llmc *f, const char *name, size_t *kind, uint32_t *layer)
{
    static const char prefix[] = "transformer.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    name += sizeof prefix - 1;
    unsigned number = 0;
    int used = 0;
    bool of_layer = sscanf(name, "h.%9u.%n", &number, &used) == 1 && used > 0;
    if (of_layer && number >= f->model.layers)
        return false;
    *layer = number;
    for (*kind = 0; *kind < N_KINDS; (*kind)++)
        if (kinds[*kind].per_layer == of_layer && strcmp(kinds[*kind].name, name + used) == 0)
            return true;
    return false;
}

/* Reads n elements, starting at element `at` of the file. */
static enum weft_status read_elements(const struct wf_llmc *f, uint64_t at, size_t n,
                                      float *out, struct weft_error *err)
{
    unsigned char bytes[4 * 1024];
    size_t size = f->bf16 ? 2 : 4;
    for (size_t done = 0; done < n;) {
        size_t now = wf_size_min(n - done, sizeof bytes / size);
        WEFT_TRY(wf_file_read_at(f->fd, f->path, WF_LLMC_HEADER_BYTES + (at + done) * size,
                                 bytes, now * size, err));
        for (size_t i = 0; i < now; i++)
            out[done + i] =
                f->bf16 ? wf_f32_from_bf16((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8))
                        : wf_f32_from_bits(number_at(bytes, i));
        done += now;
    }
    return WEFT_OK;
}

/* Reads a matrix that has the shape (rows, cols) in the file and transposes it to (cols,
 * rows). */
static enum weft_status read_transposed(const struct wf_llmc *f, uint64_t at, size_t rows,
                                        size_t cols, float *out, struct weft_error *err)
{
    float *from = malloc(rows * cols * sizeof *from);
    if (from == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to transpose a matrix of %zu x %zu", rows,
                         cols);
    enum weft_status st = read_elements(f, at, rows * cols, from, err);
    for (size_t r0 = 0; st == WEFT_OK && r0 < rows; r0 += 16)
        for (size_t c = 0; c < cols; c++)
            for (size_t r = r0; r < wf_size_min(r0 + 16, rows); r++)
                out[c * rows + r] = from[r * cols + c];
    free(from);
    return st;
}

enum weft_status wf_llmc_read(const struct wf_llmc *f, const char *name, uint32_t n_dims,
                              const uint64_t *shape, float *out, struct weft_error *err)
{
    size_t kind;
    uint32_t layer;
    if (!find(f, name, &kind, &layer))
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s has no %.100s", f->path, name);
    const struct kind *k = &kinds[kind];
    uint64_t rows, cols;
    shape_of(f, kind, &rows, &cols);
    uint64_t at = f->begin[kind] + layer * rows * cols;
    if (kind == 0)
        rows = f->model.vocab; /* rows of the vocabulary without the padding */
    uint64_t first = k->transposed ? cols : rows, second = k->transposed ? rows : cols;
    if (n_dims != (k->cols == 0 ? 1U : 2U) || shape[0] != first ||
        (n_dims == 2 && shape[1] != second))
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %.100s has another shape than expected",
                         f->path, name);

    if (k->transposed)
        return read_transposed(f, at, rows, cols, out, err);
    return read_elements(f, at, rows * cols, out, err);
}
