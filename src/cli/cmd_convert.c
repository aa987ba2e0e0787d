/* Weights from one form into another. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/ckpt/file.h"
#include "training/ckpt/hf.h"
#include "training/data/tokenizer.h"

struct convert_settings {
    const char *to, *type, *shard_bytes, *step;
};

#define AT(field) offsetof(struct convert_settings, field)

static const struct wf_option options[] = {
    {"to", 0, WF_OPTION_CHOICE, "FORM",
     "what OUT is: hf, a Hugging Face directory (default), or checkpoint", "hf|checkpoint",
     AT(to)},
    {"type", 't', WF_OPTION_CHOICE, "TYPE", "hf: of the weights: f32 (default) or bf16",
     "f32|bf16", AT(type)},
    {"shard-bytes", 0, WF_OPTION_TEXT, "N", "hf: begin a new file before N bytes (5000000000)",
     NULL, AT(shard_bytes)},
    {"step", 0, WF_OPTION_TEXT, "N", "checkpoint: the step that a run goes on from (0)", NULL,
     AT(step)},
};

/* -- settings ------------------------------------------------------------------------------- */

static enum weft_status parse_number(const char *text, const char *name, uint64_t least,
                                     uint64_t fallback, uint64_t *out, struct weft_error *err)
{
    *out = fallback;
    if (text == NULL)
        return WEFT_OK;
    unsigned long long n = strtoull(text, NULL, 10);
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18 ||
        n < least)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is '%.40s': give a whole number from %llu on",
                         name, text, (unsigned long long)least);
    *out = n;
    return WEFT_OK;
}

static bool to_checkpoint(const struct convert_settings *s)
{
    return s->to != NULL && strcmp(s->to, "checkpoint") == 0;
}

static enum weft_status check_settings(const struct convert_settings *s, struct weft_error *err)
{
    if (to_checkpoint(s) && (s->type != NULL || s->shard_bytes != NULL))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "--%s is for a Hugging Face directory: a checkpoint is one file in f32",
            s->type != NULL ? "type" : "shard-bytes");
    if (!to_checkpoint(s) && s->step != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--step goes with --to checkpoint");
    return WEFT_OK;
}

/* -- files beside the weights --------------------------------------------------------------- */

/* What transformers keeps of a tokenizer, and how it is to be used. */
static const char *const companions[] = {"tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "tokenizer.model",
                                         "generation_config.json"};

static enum weft_status copy_if_there(const char *dir, const char *name,
                                      struct wf_hf_writer *to, struct weft_error *err)
{
    char *path = wf_path_join(dir, name);
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of %s", name);
    enum weft_status st =
        access(path, F_OK) == 0 ? wf_hf_writer_copy(to, name, path, err) : WEFT_OK;
    free(path);
    return st;
}

/* Of a Hugging Face directory all files as they are; else the one that the tokenizer is in, or
 * the files of the directory that it is. */
static enum weft_status copy_companions(const struct wf_weights *from, struct wf_hf_writer *to,
                                        struct weft_error *err)
{
    char *found = NULL;
    enum weft_status st = WEFT_OK;
    WEFT_TRY(wf_load_find_tokenizer(from, &found, err));
    const char *dir = wf_weights_hf(from) != NULL               ? wf_weights_info(from)->path
                      : found != NULL && wf_is_directory(found) ? found
                                                                : NULL;
    for (size_t i = 0; st == WEFT_OK && dir != NULL && i < WEFT_LEN(companions); i++)
        st = copy_if_there(dir, companions[i], to, err);
    if (dir == NULL && found != NULL)
        st = wf_hf_writer_copy(to, "tokenizer.json", found, err);
    free(found);
    return st;
}

/* -- a Hugging Face directory --------------------------------------------------------------- */

/* Tensor after tensor, so that only the largest must fit into memory. */
static enum weft_status copy(const struct wf_weights *from, const struct wf_param_list *params,
                             struct wf_hf_writer *to, struct weft_error *err)
{
    size_t most = 1, bytes;
    for (size_t i = 0; i < params->n; i++)
        most = wf_size_max(most, wf_param_size(&params->at[i]));
    float *values = wf_size_mul(most, sizeof *values, &bytes) ? malloc(bytes) : NULL;
    if (values == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a tensor of %zu elements", most);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < params->n; i++) {
        st = wf_load_param(from, &params->at[i], values, err);
        if (st == WEFT_OK)
            st = wf_hf_writer_append(to, values, wf_param_size(&params->at[i]), err);
    }
    free(values);
    return st;
}

/* What to convert, and what of it. */
struct job {
    const struct wf_weights *from;
    struct wf_param_list params;
    struct wf_hf_tensor *tensors; /* owned */
    const char *out;
};

static enum weft_status write_hf(const struct job *j, const struct convert_settings *s,
                                 struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(j->from);
    struct wf_hf_write_options how = {
        .type = s->type != NULL && strcmp(s->type, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .bos = info->bos,
        .eos = info->eos};
    struct wf_hf_writer *writer = NULL;
    WEFT_TRY(parse_number(s->shard_bytes, "shard-bytes", 1, WF_HF_SHARD_BYTES, &how.shard_bytes,
                          err));
    WEFT_TRY(
        wf_hf_writer_new(j->out, &info->model, j->tensors, j->params.n, &how, &writer, err));
    enum weft_status st = copy_companions(j->from, writer, err);
    if (st == WEFT_OK)
        st = copy(j->from, &j->params, writer, err);
    if (st == WEFT_OK)
        st = wf_hf_writer_finish(writer, err);
    wf_hf_writer_free(writer);
    if (st == WEFT_OK)
        printf("%s: %s, %u layer%s of dimension %u, %zu tensors, %s\n", j->out,
               weft_arch_name(info->model.arch), info->model.layers,
               info->model.layers == 1 ? "" : "s", info->model.dim, j->params.n,
               wf_dtype_name(how.type));
    return st;
}

/* -- a checkpoint --------------------------------------------------------------------------- */

/* NULL: there is none, or one of a kind that weft cannot use. */
static enum weft_status open_tokenizer(const struct wf_weights *from, struct wf_tokenizer **out,
                                       struct weft_error *err)
{
    char *path = NULL;
    struct weft_error why = {0};
    WEFT_TRY(wf_load_find_tokenizer(from, &path, err));
    if (path != NULL && wf_tokenizer_open(path, out, &why) != WEFT_OK)
        fprintf(stderr, "weft: warning: the tokenizer is left out: %s\n", why.msg);
    free(path);
    return WEFT_OK;
}

static enum weft_status save_tokenizer(void *tokenizer, const char *dir, struct weft_error *err)
{
    return wf_tokenizer_save(tokenizer, dir, err);
}

static enum weft_status write_checkpoint(const struct job *j, const struct convert_settings *s,
                                         struct weft_error *err)
{
    uint64_t step;
    struct wf_tokenizer *tokenizer = NULL;
    WEFT_TRY(parse_number(s->step, "step", 0, 0, &step, err));
    WEFT_TRY(open_tokenizer(j->from, &tokenizer, err));
    const struct wf_weights_extras more = {save_tokenizer, tokenizer};
    enum weft_status st = wf_weights_to_checkpoint(
        j->from, j->tensors, j->params.n, step, tokenizer == NULL ? NULL : &more, j->out, err);
    wf_tokenizer_free(tokenizer);
    if (st == WEFT_OK)
        printf("%s: a checkpoint of step %llu, %zu tensors, moments zero\n", j->out,
               (unsigned long long)step, j->params.n);
    return st;
}

/* -- the command ---------------------------------------------------------------------------- */

static enum weft_status list_tensors(struct job *j, struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(j->from)->model;
    WEFT_TRY(wf_param_list_init(&j->params, model, 0, model->layers + 2, err));
    j->tensors = calloc(j->params.n + 1, sizeof *j->tensors);
    if (j->tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu weights", j->params.n);
    for (size_t i = 0; i < j->params.n; i++) {
        const struct wf_param_desc *d = &j->params.at[i];
        j->tensors[i] = (struct wf_hf_tensor){d->name, d->n_dims, {d->shape[0], d->shape[1]}};
    }
    return WEFT_OK;
}

static enum weft_status convert(const char *in, const char *out,
                                const struct convert_settings *s, struct weft_error *err)
{
    struct wf_weights *from = NULL;
    WEFT_TRY(check_settings(s, err));
    WEFT_TRY(wf_model_open(in, &from, err));
    struct job j = {.from = from, .out = out};
    enum weft_status st = list_tensors(&j, err);
    if (st == WEFT_OK)
        st = to_checkpoint(s) ? write_checkpoint(&j, s, err) : write_hf(&j, s, err);
    free(j.tensors);
    wf_param_list_release(&j.params);
    wf_weights_free(from);
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
        wf_options_parse(wf_command_convert.options, argc, argv, &s, paths, &n, err);
    if (st == WEFT_OK && n != 2)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "convert takes what to read and what to write, not %zu name%s: see weft "
                       "convert --help",
                       n, wf_plural(n));
    if (st == WEFT_OK)
        st = convert(paths[0], paths[1], &s, err);
    free(paths);
    return st;
}

const struct wf_command wf_command_convert = {
    .name = "convert",
    .summary = "turn stored weights into another form",
    .operands = "IN OUT",
    .text = "Reads a model and writes it as a new directory OUT: a Hugging Face directory\n"
            "(config.json and safetensors), or a checkpoint that a run can begin with. IN is\n"
            "\n" WF_MODEL_TEXT "\n"
            "OUT appears whole or not at all; a directory that has something in it is not\n"
            "touched. The tokenizer goes along: the files beside the weights, or for a\n"
            "checkpoint the tokenizer.json of its run.\n\n"
            "A checkpoint that is made so has the weights and no more: AdamW's moments are\n"
            "zero, as at the start of a run. A run goes on from it with\n"
            "--checkpoint.resume=OUT, and settings of the same model.\n",
    .examples = "  weft convert gpt2_124M.bin gpt2\n"
                "  weft convert runs/a small --type bf16\n"
                "  weft convert runs/a/checkpoints/step-00000100 early\n"
                "  weft convert gpt2 start --to checkpoint\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_convert,
};
