#include "ckpt/weights.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "ckpt/file.h"
#include "ckpt/hf.h"
#include "ckpt/llmc.h"

struct weft_weights {
    struct weft_weights_info info;
    struct weft_hf *hf;     /* owned; one of the two */
    struct weft_llmc *llmc; /* owned */
};

/* -- what config.json says of documents ------------------------------------------------------ */

/* A token, or the first of several; what is none is not known. */
static int64_t token_of(const json_t *config, const char *key, uint32_t vocab)
{
    const json_t *value = json_object_get(config, key);
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (!json_is_integer(value))
        return -1;
    json_int_t token = json_integer_value(value);
    return token >= 0 && token < (json_int_t)vocab ? (int64_t)token : -1;
}

enum { CONFIG_BYTES = 1 << 20 };

/* The model itself is read by ckpt/hf.h, which has refused what is broken. */
static enum weft_status read_documents(struct weft_weights *w, const char *dir,
                                       struct weft_error *err)
{
    char *path = weft_path_join(dir, "config.json"), *text = NULL;
    size_t len = 0;
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "the path of a config.json");
    enum weft_status st = weft_file_read(path, CONFIG_BYTES, &text, &len, err);
    free(path);
    if (st != WEFT_OK)
        return st;
    json_t *config = json_loadb(text, len, 0, NULL);
    free(text);
    w->info.bos = token_of(config, "bos_token_id", w->info.model.vocab);
    w->info.eos = token_of(config, "eos_token_id", w->info.model.vocab);
    json_decref(config);
    return WEFT_OK;
}

/* -- opening -------------------------------------------------------------------------------- */

static enum weft_status open_directory(struct weft_weights *w, const char *path,
                                       struct weft_error *err)
{
    WEFT_TRY(weft_hf_open(path, &w->hf, err));
    w->info.model = *weft_hf_model(w->hf);
    w->info.kind = "Hugging Face directory";
    w->info.n_tensors = weft_hf_count(w->hf);
    w->info.n_elements = weft_hf_elements(w->hf);
    return read_documents(w, path, err);
}

static enum weft_status open_file(struct weft_weights *w, const char *path,
                                  struct weft_error *err)
{
    WEFT_TRY(weft_llmc_open(path, &w->llmc, err));
    w->info.model = *weft_llmc_model(w->llmc);
    w->info.kind = "llm.c model";
    weft_llmc_sizes(w->llmc, &w->info.n_tensors, &w->info.n_elements);
    /* Its files do not say; GPT-2's own vocabulary ends with the end of a document. */
    if (w->info.model.vocab == 50257)
        w->info.bos = w->info.eos = 50256;
    return WEFT_OK;
}

enum weft_status weft_weights_open(const char *path, struct weft_weights **out,
                                   struct weft_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s cannot be opened: %s: give a model's directory or file", path,
                         strerror(errno));
    struct weft_weights *w = calloc(1, sizeof *w);
    if (w == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "a handle for %.160s", path);
    w->info.bos = w->info.eos = -1;
    enum weft_status status =
        S_ISDIR(st.st_mode) ? open_directory(w, path, err) : open_file(w, path, err);
    if (status == WEFT_OK)
        *out = w;
    else
        weft_weights_free(w);
    return status;
}

void weft_weights_free(struct weft_weights *w)
{
    if (w == NULL)
        return;
    weft_hf_free(w->hf);
    weft_llmc_free(w->llmc);
    free(w);
}

const struct weft_weights_info *weft_weights_info(const struct weft_weights *w)
{
    return &w->info;
}

/* -- reading -------------------------------------------------------------------------------- */

enum weft_status weft_weights_check_names(const struct weft_weights *w,
                                          const char *const *names, size_t n,
                                          struct weft_error *err)
{
    /* A file of llm.c has what its header says. */
    return w->hf == NULL ? WEFT_OK : weft_hf_check_names(w->hf, names, n, err);
}

enum weft_status weft_weights_read(const struct weft_weights *w, const char *name,
                                   uint32_t rank, const uint64_t *shape, float *out,
                                   struct weft_error *err)
{
    if (w->hf != NULL)
        return weft_hf_read(w->hf, name, rank, shape, out, err);
    return weft_llmc_read(w->llmc, name, rank, shape, out, err);
}
