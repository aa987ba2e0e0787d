/* Weights from one form into another. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "ckpt/hf.h"
#include "cli/cli.h"
#include "train/load.h"

struct convert_settings {
    const char *type, *shard_bytes;
};

#define AT(field) offsetof(struct convert_settings, field)

static const struct weft_option options[] = {
    {"type", 't', WEFT_OPT_CHOICE, "TYPE", "of the weights: f32 (default) or bf16", "f32|bf16",
     AT(type)},
    {"shard-bytes", 0, WEFT_OPT_TEXT, "N", "begin a new file before N bytes (5000000000)", NULL,
     AT(shard_bytes)},
};

static enum weft_status parse_bytes(const char *text, uint64_t *out, struct weft_error *err)
{
    char *end;
    *out = WEFT_HF_SHARD_BYTES;
    if (text == NULL)
        return WEFT_OK;
    unsigned long long n = strtoull(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 18 || n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--shard-bytes is '%.40s': give a number above 0",
                         text);
    *out = n;
    return WEFT_OK;
}

/* Tensor after tensor, so that only the largest must fit into memory. */
static enum weft_status copy(const struct weft_weights *from,
                             const struct weft_param_list *params, struct weft_hf_writer *to,
                             struct weft_error *err)
{
    size_t most = 1, bytes;
    for (size_t i = 0; i < params->n; i++)
        most = weft_size_max(most, weft_param_size(&params->at[i]));
    float *values = weft_size_mul(most, sizeof *values, &bytes) ? malloc(bytes) : NULL;
    if (values == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a tensor of %zu elements", most);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < params->n; i++) {
        st = weft_load_param(from, &params->at[i], values, err);
        if (st == WEFT_OK)
            st = weft_hf_writer_append(to, values, weft_param_size(&params->at[i]), err);
    }
    free(values);
    return st == WEFT_OK ? weft_hf_writer_finish(to, err) : st;
}

static enum weft_status write_all(const struct weft_weights *from,
                                  const struct weft_param_list *params, const char *dir,
                                  const struct weft_hf_write_options *how,
                                  struct weft_error *err)
{
    struct weft_hf_tensor *tensors = calloc(params->n + 1, sizeof *tensors);
    struct weft_hf_writer *writer = NULL;
    if (tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu weights", params->n);
    for (size_t i = 0; i < params->n; i++) {
        const struct weft_param_desc *d = &params->at[i];
        tensors[i] = (struct weft_hf_tensor){d->name, d->rank, {d->shape[0], d->shape[1]}};
    }
    enum weft_status st = weft_hf_writer_new(dir, &weft_weights_info(from)->model, tensors,
                                             params->n, how, &writer, err);
    if (st == WEFT_OK)
        st = copy(from, params, writer, err);
    weft_hf_writer_free(writer);
    free(tensors);
    return st;
}

static enum weft_status convert(const char *in, const char *out,
                                const struct convert_settings *s, struct weft_error *err)
{
    struct weft_hf_write_options how = {
        .type = s->type != NULL && strcmp(s->type, "bf16") == 0 ? WEFT_BF16 : WEFT_F32};
    struct weft_weights *from = NULL;
    struct weft_param_list params = {0};
    WEFT_TRY(parse_bytes(s->shard_bytes, &how.shard_bytes, err));
    WEFT_TRY(weft_load_open(in, &from, err));
    const struct weft_weights_info *info = weft_weights_info(from);
    how.bos = info->bos;
    how.eos = info->eos;
    enum weft_status st =
        weft_param_list_init(&params, &info->model, 0, info->model.layers + 2, err);
    if (st == WEFT_OK)
        st = write_all(from, &params, out, &how, err);
    if (st == WEFT_OK)
        printf("%s: %s, %u layer%s of dimension %u, %zu tensors, %s\n", out,
               weft_arch_name(info->model.arch), info->model.layers,
               info->model.layers == 1 ? "" : "s", info->model.dim, params.n,
               weft_type_name(how.type));
    weft_param_list_release(&params);
    weft_weights_free(from);
    return st;
}

static enum weft_status run_convert(int argc, char **argv, struct weft_error *err)
{
    struct convert_settings s = {0};
    const char **paths = malloc(sizeof *paths * ((size_t)argc + 1));
    size_t n = 0;
    if (paths == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    enum weft_status st =
        weft_options_parse(weft_command_convert.options, argc, argv, &s, paths, &n, err);
    if (st == WEFT_OK && n != 2)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "convert takes what to read and what to write, not %zu name%s: see weft "
                       "convert --help",
                       n, weft_plural(n));
    if (st == WEFT_OK)
        st = convert(paths[0], paths[1], &s, err);
    free(paths);
    return st;
}

const struct weft_command weft_command_convert = {
    .name = "convert",
    .summary = "turn stored weights into another form",
    .operands = "IN OUT",
    .text = "Reads a model and writes it as a new Hugging Face directory OUT (config.json and\n"
            "safetensors). IN is\n\n"
            "  a Hugging Face directory    GPT-2 or Llama, in f32, bf16 or f16, in any number\n"
            "                              of files\n"
            "  a model file of llm.c       GPT-2, version 3 (fp32) or 5 (bf16); the padding\n"
            "                              of its vocabulary is left out\n\n"
            "OUT appears whole or not at all; a directory that has something in it is not\n"
            "touched. A tokenizer beside the weights is not copied.\n",
    .examples = "  weft convert gpt2_124M.bin gpt2\n"
                "  weft convert runs/a/model small --type bf16\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_convert,
};
