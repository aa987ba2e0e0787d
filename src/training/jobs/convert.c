/* Writes the weights of a model as a Hugging Face directory or as a checkpoint. */
#include "training/jobs/convert.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "training/ckpt/hf.h"
#include "training/data/tokenizer.h"
#include "training/trainer/companions.h"
#include "training/trainer/load.h"

struct wf_convert_options wf_convert_defaults(void)
{
    return (struct wf_convert_options){.type = WF_DTYPE_F32, .shard_bytes = WF_HF_SHARD_BYTES};
}

/* -- tensors ------------------------------------------------------------------------------- */

struct conversion {
    const struct wf_weights *from;
    struct wf_param_list params;
    struct wf_hf_tensor *tensors; /* owned: (params.n) */
};

static void job_release(struct conversion *j)
{
    free(j->tensors);
    wf_param_list_release(&j->params);
}

static enum weft_status list_tensors(struct conversion *j, struct weft_error *err)
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

/* -- a Hugging Face directory -------------------------------------------------------------- */

static enum weft_status copy_tensors(const struct wf_weights *from,
                                     const struct wf_param_list *params,
                                     struct wf_hf_writer *to, struct weft_error *err)
{
    size_t largest = 1, bytes;
    for (size_t i = 0; i < params->n; i++)
        largest = wf_size_max(largest, wf_param_size(&params->at[i]));
    float *values = wf_size_mul(largest, sizeof *values, &bytes) ? malloc(bytes) : NULL;
    if (values == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a tensor of %zu elements", largest);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < params->n; i++) {
        st = wf_load_param(from, &params->at[i], values, err);
        if (st == WEFT_OK)
            st = wf_hf_writer_append(to, values, wf_param_size(&params->at[i]), err);
    }
    free(values);
    return st;
}

/* Writes all files.  `about` has the token ids for config.json. */
static enum weft_status write_files(const struct conversion *j, const char *out,
                                    const struct wf_convert_options *options,
                                    const struct wf_companions *companions,
                                    const struct wf_hf_metadata *about, struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(j->from)->model;
    struct wf_hf_write_options how = {
        .type = options->type, .shard_bytes = options->shard_bytes, .about = about};
    struct wf_hf_writer *writer = NULL;
    WEFT_TRY(wf_hf_writer_new(out, model, j->tensors, j->params.n, &how, &writer, err));
    enum weft_status st = wf_companions_write(companions, model, writer, err);
    if (st == WEFT_OK)
        st = copy_tensors(j->from, &j->params, writer, err);
    if (st == WEFT_OK)
        st = wf_hf_writer_finish(writer, err);
    wf_hf_writer_free(writer);
    return st;
}

static enum weft_status write_hf(const struct conversion *j, const char *out,
                                 const struct wf_convert_options *options,
                                 struct wf_convert_result *result, struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(j->from);
    struct wf_companions companions = {0};
    struct wf_hf_metadata about = {0};
    char *source = NULL, *tokenizer = NULL, end[32];
    enum weft_status st = wf_load_find_source(j->from, &source, err);
    if (st == WEFT_OK)
        st = wf_load_find_tokenizer(j->from, &tokenizer, err);
    if (st == WEFT_OK)
        st = wf_companions_init(&companions, source, tokenizer, &info->model, err);

    /* A file of llm.c has no tokenizer, but its end of a document may be known. */
    wf_companions_describe(&companions, &about);
    snprintf(end, sizeof end, "%lld", (long long)info->eos);
    if (about.eos == NULL && source == NULL && info->eos >= 0)
        about.bos = about.eos = about.pad = end;

    if (st == WEFT_OK)
        st = write_files(j, out, options, &companions, &about, err);
    if (st == WEFT_OK)
        snprintf(result->note, sizeof result->note, "%s", companions.note);
    wf_companions_release(&companions);
    free(tokenizer);
    free(source);
    return st;
}

enum weft_status wf_convert_to_hf(const struct wf_weights *from, const char *out,
                                  const struct wf_convert_options *options,
                                  struct wf_convert_result *result, struct weft_error *err)
{
    struct conversion j = {.from = from};
    struct wf_convert_result r = {0};
    enum weft_status st = list_tensors(&j, err);
    if (st == WEFT_OK)
        st = write_hf(&j, out, options, &r, err);
    r.n_tensors = j.params.n;
    if (st == WEFT_OK)
        *result = r;
    job_release(&j);
    return st;
}

/* -- a checkpoint -------------------------------------------------------------------------- */

/* Opens the tokenizer.  *out stays NULL if there is no tokenizer or if weft cannot read it. */
static enum weft_status open_tokenizer(const struct wf_weights *from,
                                       struct weft_tokenizer **out,
                                       struct wf_convert_result *result, struct weft_error *err)
{
    char *path = NULL;
    struct weft_error why = {0};
    WEFT_TRY(wf_load_find_tokenizer(from, &path, err));
    if (path != NULL && weft_tokenizer_open(path, out, &why) != WEFT_OK)
        snprintf(result->note, sizeof result->note, "the tokenizer is left out: %.199s",
                 why.msg);
    free(path);
    return WEFT_OK;
}

static enum weft_status save_tokenizer(void *tokenizer, const char *dir, struct weft_error *err)
{
    return weft_tokenizer_save(tokenizer, dir, err);
}

static enum weft_status write_checkpoint(const struct conversion *j, const char *out,
                                         uint64_t step, struct wf_convert_result *result,
                                         struct weft_error *err)
{
    struct weft_tokenizer *tokenizer = NULL;
    char identity[WF_TOKENIZER_HASH_SIZE];
    WEFT_TRY(open_tokenizer(j->from, &tokenizer, result, err));
    const char *known = wf_weights_info(j->from)->tokenizer;
    wf_tokenizer_hash_print(tokenizer == NULL ? 0 : wf_tokenizer_hash(tokenizer), identity);
    const struct wf_weights_extras extras = {
        known != NULL ? known : identity, tokenizer == NULL ? NULL : save_tokenizer, tokenizer};
    enum weft_status st =
        wf_weights_to_checkpoint(j->from, j->tensors, j->params.n, step, &extras, out, err);
    weft_tokenizer_free(tokenizer);
    return st;
}

enum weft_status wf_convert_to_checkpoint(const struct wf_weights *from, const char *out,
                                          const struct wf_convert_options *options,
                                          struct wf_convert_result *result,
                                          struct weft_error *err)
{
    struct conversion j = {.from = from};
    struct wf_convert_result r = {0};
    enum weft_status st = list_tensors(&j, err);
    if (st == WEFT_OK)
        st = write_checkpoint(&j, out, options->step, &r, err);
    r.n_tensors = j.params.n;
    if (st == WEFT_OK)
        *result = r;
    job_release(&j);
    return st;
}
