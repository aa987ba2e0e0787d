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
#include "base/printable.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "training/ckpt/file.h"
#include "training/ckpt/hf.h"
#include "training/ckpt/llmc.h"
#include "training/ckpt/store.h"

struct weft_weights {
    struct weft_weights_info info;
    struct weft_hf *hf;       /* owned; one of the three */
    struct weft_store *store; /* owned */
    struct weft_llmc *llmc;   /* owned */
    char *path;               /* owned */
    struct weft_text note;
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

/* The model itself is read by training/ckpt/hf.h, which has refused what is broken. */
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

static enum weft_status no_memory(const char *path, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory to open %.160s", path);
}

static enum weft_status open_hf(struct weft_weights *w, const char *path,
                                struct weft_error *err)
{
    WEFT_TRY(weft_hf_open(path, &w->hf, err));
    w->info.model = *weft_hf_model(w->hf);
    w->info.kind = "Hugging Face directory";
    w->info.n_tensors = weft_hf_count(w->hf);
    w->info.n_elements = weft_hf_elements(w->hf);
    return read_documents(w, path, err);
}

static enum weft_status describe_store(struct weft_weights *w, struct weft_error *err)
{
    const char *model = weft_store_model(w->store), *path = weft_store_path(w->store);
    WEFT_TRY(weft_hf_config_parse(model, strlen(model), path, &w->info.model, err));
    w->info.kind = "checkpoint";
    const char *settings = weft_store_config(w->store);
    w->info.settings = settings[0] == '\0' ? NULL : settings; /* weft convert has none */
    w->info.n_tensors = weft_store_count(w->store);
    for (size_t i = 0; i < w->info.n_tensors; i++) /* all have their bytes: no overflow */
        w->info.n_elements += weft_store_at(w->store, i)->n;
    return WEFT_OK;
}

/* Each number is compared with its hash when it is read. */
static enum weft_status open_checkpoint(struct weft_weights *w, const char *path,
                                        struct weft_error *err)
{
    WEFT_TRY(weft_store_open(path, false, &w->store, err));
    return describe_store(w, err);
}

/* -- runs ----------------------------------------------------------------------------------- */

static void write_note(struct weft_weights *w, const char *run, const struct weft_text *skipped)
{
    weft_text_addf(&w->note, "%s is not finished: its checkpoint of step %llu is taken", run,
                   (unsigned long long)weft_store_step(w->store));
    if (skipped->len == 0)
        return;
    weft_text_addf(&w->note, "; passed over: ");
    for (size_t i = 0; i < skipped->len; i++) { /* lines become one */
        bool last = i + 1 == skipped->len;
        if (skipped->at[i] != '\n')
            weft_text_addc(&w->note, skipped->at[i]);
        else if (!last)
            weft_text_addf(&w->note, "; ");
    }
}

/* All numbers are read once before one is chosen: an older one takes the place of a broken one. */
static enum weft_status open_newest(struct weft_weights *w, const char *run,
                                    struct weft_error *err)
{
    struct weft_text skipped = {0};
    char *root = weft_path_join(run, "checkpoints");
    if (root == NULL)
        return no_memory(run, err);
    enum weft_status st = weft_store_newest(root, true, &w->store, &skipped, err);
    free(root);
    if (st == WEFT_OK && w->store == NULL)
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%.160s is a run that is not finished and has no checkpoint: there are "
                       "no weights yet",
                       run);
    if (st == WEFT_OK)
        st = describe_store(w, err);
    if (st == WEFT_OK)
        write_note(w, run, &skipped);
    if (st == WEFT_OK && (skipped.failed || w->note.failed))
        st = no_memory(run, err);
    weft_text_release(&skipped);
    return st;
}

static enum weft_status open_final(struct weft_weights *w, const char *run,
                                   struct weft_error *err)
{
    char *path = weft_path_join(run, "model");
    if (path == NULL)
        return no_memory(run, err);
    free(w->path);
    w->path = path;
    return open_hf(w, path, err);
}

/* -- which it is ---------------------------------------------------------------------------- */

enum { SHOWN = 3 };

/* The first names in a directory, by the alphabet, so that one sees what it is. */
static void list_names(const char *dir, struct weft_text *out)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort), shown = 0;
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && shown++ < SHOWN)
            weft_text_addf(out, "%s%.40s", shown > 1 ? ", " : "", weft_printable(name).at);
        free(names[i]);
    }
    free(names);
    if (shown > SHOWN)
        weft_text_addf(out, " and %d more", shown - SHOWN);
    else if (shown == 0)
        weft_text_addf(out, n < 0 ? "nothing that may be read" : "nothing");
}

static enum weft_status fail_unknown(const char *dir, struct weft_error *err)
{
    struct weft_text names = {0};
    list_names(dir, &names);
    enum weft_status st = WEFT_FAIL(
        err, WEFT_CKPT,
        "%.160s is no model: it should have config.json (Hugging Face), manifest.json "
        "(a checkpoint), or model/ or checkpoints/ (a run), and has %s",
        dir, names.at != NULL ? names.at : "other files");
    weft_text_release(&names);
    return st;
}

static enum weft_status open_directory(struct weft_weights *w, const char *path,
                                       struct weft_error *err)
{
    if (weft_path_has(path, "config.json") || weft_path_has(path, "model.safetensors") ||
        weft_path_has(path, "model.safetensors.index.json"))
        return open_hf(w, path, err);
    if (weft_path_has(path, "manifest.json"))
        return open_checkpoint(w, path, err);
    if (weft_path_has(path, "model"))
        return open_final(w, path, err);
    if (weft_path_has(path, "checkpoints") || weft_path_has(path, "config.yaml") ||
        weft_path_has(path, "metrics.jsonl"))
        return open_newest(w, path, err);
    return fail_unknown(path, err);
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
        return no_memory(path, err);
    w->info.bos = w->info.eos = -1;
    w->path = strdup(path);
    enum weft_status status = w->path == NULL       ? no_memory(path, err)
                              : S_ISDIR(st.st_mode) ? open_directory(w, path, err)
                                                    : open_file(w, path, err);
    if (status != WEFT_OK) {
        weft_weights_free(w);
        return status;
    }
    w->info.path = w->store != NULL ? weft_store_path(w->store) : w->path;
    w->info.note = w->note.at;
    *out = w;
    return WEFT_OK;
}

void weft_weights_free(struct weft_weights *w)
{
    if (w == NULL)
        return;
    weft_hf_free(w->hf);
    weft_store_free(w->store);
    weft_llmc_free(w->llmc);
    weft_text_release(&w->note);
    free(w->path);
    free(w);
}

const struct weft_weights_info *weft_weights_info(const struct weft_weights *w)
{
    return &w->info;
}

const struct weft_hf *weft_weights_hf(const struct weft_weights *w)
{
    return w->hf;
}

/* -- reading -------------------------------------------------------------------------------- */

static enum weft_status check_store_names(const struct weft_store *store,
                                          const char *const *names, size_t n,
                                          struct weft_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (weft_store_find(store, names[i]) == NULL)
            return WEFT_FAIL(err, WEFT_CKPT, "%.160s has no tensor %s", weft_store_path(store),
                             names[i]);
    if (weft_store_count(store) != n)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s has %zu tensors, its model %zu",
                         weft_store_path(store), weft_store_count(store), n);
    return WEFT_OK;
}

enum weft_status weft_weights_check_names(const struct weft_weights *w,
                                          const char *const *names, size_t n,
                                          struct weft_error *err)
{
    if (w->store != NULL)
        return check_store_names(w->store, names, n, err);
    /* A file of llm.c has what its header says. */
    return w->hf == NULL ? WEFT_OK : weft_hf_check_names(w->hf, names, n, err);
}

static enum weft_status read_store(struct weft_store *store, const char *name, uint32_t rank,
                                   const uint64_t *shape, float *out, struct weft_error *err)
{
    const struct weft_store_param *p = weft_store_find(store, name);
    bool same = p != NULL && p->rank == rank;
    for (uint32_t i = 0; same && i < rank; i++)
        same = p->shape[i] == shape[i];
    if (!same)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %s is missing or has another shape",
                         weft_store_path(store), name);
    return weft_store_read(store, name, WEFT_STORE_VALUE, 0, p->n, out, err);
}

enum weft_status weft_weights_read(const struct weft_weights *w, const char *name,
                                   uint32_t rank, const uint64_t *shape, float *out,
                                   struct weft_error *err)
{
    if (w->hf != NULL)
        return weft_hf_read(w->hf, name, rank, shape, out, err);
    if (w->store != NULL)
        return read_store(w->store, name, rank, shape, out, err);
    return weft_llmc_read(w->llmc, name, rank, shape, out, err);
}
