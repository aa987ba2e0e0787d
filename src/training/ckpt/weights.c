/* Opens the supported sources of weights and reads tensors from them. */
#define _DEFAULT_SOURCE /* scandir */
#include "training/ckpt/weights.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/hf.h"
#include "training/ckpt/llmc.h"
#include "training/ckpt/store.h"

struct wf_weights {
    struct wf_weights_info info;
    struct wf_hf *hf;      /* owned; exactly one of hf, store and llmc is not NULL */
    struct wf_ckpt *store; /* owned */
    struct wf_llmc *llmc;  /* owned */
    char *path;            /* owned */
    struct wf_text note;
};

/* -- special tokens in config.json --------------------------------------------------------- */

/* Returns the token id at `key`, or the first id if the value is a list.  Returns -1 if the id
 * is missing or not in the vocabulary. */
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

/* Reads the special tokens from config.json.  wf_hf_open() has already rejected invalid
 * files. */
static enum weft_status read_special_tokens(struct wf_weights *w, const char *dir,
                                            struct weft_error *err)
{
    char *path = wf_path_join(dir, "config.json"), *text = NULL;
    size_t len = 0;
    if (path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a config.json");
    enum weft_status st = wf_file_read(path, CONFIG_BYTES, &text, &len, err);
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

/* -- opening ------------------------------------------------------------------------------- */

static enum weft_status no_memory(const char *path, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory to open %.160s", path);
}

static enum weft_status open_hf(struct wf_weights *w, const char *path, struct weft_error *err)
{
    WEFT_TRY(wf_hf_open(path, &w->hf, err));
    w->info.model = *wf_hf_model(w->hf);
    w->info.kind = "Hugging Face directory";
    w->info.n_tensors = wf_hf_count(w->hf);
    w->info.n_elements = wf_hf_elements(w->hf);
    return read_special_tokens(w, path, err);
}

static enum weft_status describe_store(struct wf_weights *w, struct weft_error *err)
{
    const char *model = wf_ckpt_model(w->store), *path = wf_ckpt_path(w->store);
    WEFT_TRY(wf_hf_config_parse(model, strlen(model), path, &w->info.model, err));
    w->info.kind = "checkpoint";
    const char *settings = wf_ckpt_config(w->store);
    w->info.settings =
        settings[0] == '\0' ? NULL : settings; /* converted checkpoints have no settings */
    const char *tokenizer = wf_ckpt_tokenizer(w->store);
    w->info.tokenizer = tokenizer[0] == '\0' ? NULL : tokenizer;
    w->info.n_tensors = wf_ckpt_count(w->store);
    /* Cannot overflow: every element takes bytes in a file. */
    for (size_t i = 0; i < w->info.n_tensors; i++)
        w->info.n_elements += wf_ckpt_at(w->store, i)->n;
    return WEFT_OK;
}

/* Opens a checkpoint without verification: values are compared with their hashes when they are
 * read. */
static enum weft_status open_checkpoint(struct wf_weights *w, const char *path,
                                        struct weft_error *err)
{
    WEFT_TRY(wf_ckpt_open(path, false, &w->store, err));
    return describe_store(w, err);
}

/* -- runs ---------------------------------------------------------------------------------- */

static void write_note(struct wf_weights *w, const char *run, const struct wf_text *skipped)
{
    wf_text_addf(&w->note, "%s is not finished: using its checkpoint of step %llu", run,
                 (unsigned long long)wf_ckpt_step(w->store));
    if (skipped->len == 0)
        return;
    wf_text_addf(&w->note, "; skipped: ");
    for (size_t i = 0; i < skipped->len; i++) { /* join the lines into one line */
        bool last = i + 1 == skipped->len;
        if (skipped->at[i] != '\n')
            wf_text_addc(&w->note, skipped->at[i]);
        else if (!last)
            wf_text_addf(&w->note, "; ");
    }
}

/* Opens the newest checkpoint of a run.  Verifies all values of a checkpoint before choosing
 * it, so that an older checkpoint is used instead of a damaged one. */
static enum weft_status open_newest(struct wf_weights *w, const char *run,
                                    struct weft_error *err)
{
    struct wf_text skipped = {0};
    char *root = wf_path_join(run, "checkpoints");
    if (root == NULL)
        return no_memory(run, err);
    enum weft_status st = wf_ckpt_open_newest(root, true, &w->store, &skipped, err);
    free(root);
    if (st == WEFT_OK && w->store == NULL)
        st = WEFT_FAIL(err, WEFT_CKPT, "%.160s is an unfinished run without a checkpoint", run);
    if (st == WEFT_OK)
        st = describe_store(w, err);
    if (st == WEFT_OK)
        write_note(w, run, &skipped);
    if (st == WEFT_OK && (skipped.failed || w->note.failed))
        st = no_memory(run, err);
    wf_text_release(&skipped);
    return st;
}

static enum weft_status open_final(struct wf_weights *w, const char *run,
                                   struct weft_error *err)
{
    char *path = wf_path_join(run, "model");
    if (path == NULL)
        return no_memory(run, err);
    free(w->path);
    w->path = path;
    return open_hf(w, path, err);
}

/* -- kinds of sources ---------------------------------------------------------------------- */

enum { SHOWN = 3 };

/* Appends the first file names of a directory to `out`, for an error message. */
static void list_names(const char *dir, struct wf_text *out)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort), shown = 0;
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && shown++ < SHOWN)
            wf_text_addf(out, "%s%.40s", shown > 1 ? ", " : "", wf_printable(name).at);
        free(names[i]);
    }
    free(names);
    if (shown > SHOWN)
        wf_text_addf(out, " and %d more", shown - SHOWN);
    else if (shown == 0)
        wf_text_addf(out, n < 0 ? "nothing readable" : "nothing");
}

static enum weft_status fail_unknown(const char *dir, struct weft_error *err)
{
    struct wf_text names = {0};
    list_names(dir, &names);
    enum weft_status st =
        WEFT_FAIL(err, WEFT_CKPT,
                  "%.160s is not a model: expected config.json (Hugging Face), manifest.json "
                  "(a checkpoint), or model/ or checkpoints/ (a run); found %s",
                  dir, names.at != NULL ? names.at : "other files");
    wf_text_release(&names);
    return st;
}

static enum weft_status open_directory(struct wf_weights *w, const char *path,
                                       struct weft_error *err)
{
    if (wf_dir_contains(path, "config.json") || wf_dir_contains(path, "model.safetensors") ||
        wf_dir_contains(path, "model.safetensors.index.json"))
        return open_hf(w, path, err);
    if (wf_dir_contains(path, "manifest.json"))
        return open_checkpoint(w, path, err);
    if (wf_dir_contains(path, "model"))
        return open_final(w, path, err);
    if (wf_dir_contains(path, "checkpoints") || wf_dir_contains(path, "config.yaml") ||
        wf_dir_contains(path, "metrics.jsonl"))
        return open_newest(w, path, err);
    return fail_unknown(path, err);
}

static enum weft_status open_file(struct wf_weights *w, const char *path,
                                  struct weft_error *err)
{
    WEFT_TRY(wf_llmc_open(path, &w->llmc, err));
    w->info.model = *wf_llmc_model(w->llmc);
    w->info.kind = "llm.c model";
    wf_llmc_sizes(w->llmc, &w->info.n_tensors, &w->info.n_elements);
    /* The file does not contain the special tokens.  The last token of GPT-2's vocabulary is
     * the end-of-document token. */
    if (w->info.model.vocab == 50257)
        w->info.bos = w->info.eos = 50256;
    return WEFT_OK;
}

enum weft_status wf_weights_open(const char *path, struct wf_weights **out,
                                 struct weft_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s cannot be opened: %s; expected a model directory or file",
                         path, strerror(errno));

    struct wf_weights *w = calloc(1, sizeof *w);
    if (w == NULL)
        return no_memory(path, err);
    w->info.bos = w->info.eos = -1;
    w->path = strdup(path);
    enum weft_status status = w->path == NULL       ? no_memory(path, err)
                              : S_ISDIR(st.st_mode) ? open_directory(w, path, err)
                                                    : open_file(w, path, err);
    if (status != WEFT_OK) {
        wf_weights_free(w);
        return status;
    }

    w->info.path = w->store != NULL ? wf_ckpt_path(w->store) : w->path;
    w->info.note = w->note.at;
    *out = w;
    return WEFT_OK;
}

void wf_weights_free(struct wf_weights *w)
{
    if (w == NULL)
        return;
    wf_hf_free(w->hf);
    wf_ckpt_free(w->store);
    wf_llmc_free(w->llmc);
    wf_text_release(&w->note);
    free(w->path);
    free(w);
}

const struct wf_weights_info *wf_weights_info(const struct wf_weights *w)
{
    return &w->info;
}

const struct wf_hf *wf_weights_hf(const struct wf_weights *w)
{
    return w->hf;
}

/* -- reading ------------------------------------------------------------------------------- */

static enum weft_status check_store_names(const struct wf_ckpt *store, const char *const *names,
                                          size_t n, struct weft_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (wf_ckpt_find(store, names[i]) == NULL)
            return WEFT_FAIL(err, WEFT_CKPT, "%.160s has no tensor %s", wf_ckpt_path(store),
                             names[i]);
    if (wf_ckpt_count(store) != n)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s has %zu tensors, but its model has %zu",
                         wf_ckpt_path(store), wf_ckpt_count(store), n);
    return WEFT_OK;
}

enum weft_status wf_weights_check_names(const struct wf_weights *w, const char *const *names,
                                        size_t n, struct weft_error *err)
{
    if (w->store != NULL)
        return check_store_names(w->store, names, n, err);
    /* An llm.c file needs no check, because its header determines its tensors. */
    return w->hf == NULL ? WEFT_OK : wf_hf_check_names(w->hf, names, n, err);
}

static enum weft_status read_store(struct wf_ckpt *store, const char *name, uint32_t n_dims,
                                   const uint64_t *shape, float *out, struct weft_error *err)
{
    const struct wf_ckpt_param *p = wf_ckpt_find(store, name);
    bool same = p != NULL && p->n_dims == n_dims;
    for (uint32_t i = 0; same && i < n_dims; i++)
        same = p->shape[i] == shape[i];
    if (!same)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %s is missing or has another shape",
                         wf_ckpt_path(store), name);
    return wf_ckpt_read(store, name, WF_STORE_FIELD_VALUE, 0, p->n, out, err);
}

enum weft_status wf_weights_read(const struct wf_weights *w, const char *name, uint32_t n_dims,
                                 const uint64_t *shape, float *out, struct weft_error *err)
{
    if (w->hf != NULL)
        return wf_hf_read(w->hf, name, n_dims, shape, out, err);
    if (w->store != NULL)
        return read_store(w->store, name, n_dims, shape, out, err);
    return wf_llmc_read(w->llmc, name, n_dims, shape, out, err);
}
