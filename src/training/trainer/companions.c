/* Keeps the files beside the weights of a model, and writes those that are missing. */
#include "training/trainer/companions.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "config/json_input.h"
#include "training/data/tokenizer.h"
#include "training/trainer/companion_list.h"

enum { CONFIG_BYTES = 4 << 20, BYTE_TOKENS = 257 };

static const char *const role_keys[WF_N_TOKEN_ROLES] = {
    [WF_TOKEN_BOS] = "bos_token_id",
    [WF_TOKEN_EOS] = "eos_token_id",
    [WF_TOKEN_PAD] = "pad_token_id",
};

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the files beside the weights");
}

/* -- the tokenizer ------------------------------------------------------------------------- */

static bool has_tokenizer(const struct wf_companion_list *files)
{
    return wf_companion_list_has(files, "tokenizer.json") ||
           wf_companion_list_has(files, "vocab.json") ||
           wf_companion_list_has(files, "tokenizer.model");
}

/* Compares the tokenizer of the model with that of the source. */
static void compare_with_source(struct wf_companions *c, const struct wf_companion_list *files)
{
    struct weft_tokenizer *own = NULL;
    struct weft_error why = {0};
    c->keeps_tokenizer = true;
    if (!has_tokenizer(files))
        return;

    enum weft_status st = weft_tokenizer_open(c->source, &own, &why);
    if (c->tokenizer == NULL && st != WEFT_OK) {
        snprintf(c->note, sizeof c->note,
                 "the tokenizer in %.120s is copied, but weft cannot read it: %.220s",
                 c->source, why.msg);
    } else if (c->tokenizer == NULL) {
        c->tokenizer = own;
        own = NULL;
    } else if (st != WEFT_OK || wf_tokenizer_hash(c->tokenizer) != wf_tokenizer_hash(own)) {
        c->keeps_tokenizer = false;
        snprintf(
            c->note, sizeof c->note,
            "the data has another tokenizer than %.200s; the model gets the tokenizer of the "
            "data",
            c->source);
    }
    weft_tokenizer_free(own);
}

static enum weft_status find_tokenizer(struct wf_companions *c, const char *path,
                                       const struct weft_model *model, struct weft_error *err)
{
    struct wf_companion_list files = {0};
    struct weft_error why = {0};
    if (path != NULL && weft_tokenizer_open(path, &c->tokenizer, &why) != WEFT_OK &&
        c->source == NULL)
        return WEFT_FAIL(err, why.status, "%s", why.msg);
    if (c->source != NULL) {
        WEFT_TRY(wf_companion_list_init(&files, c->source, err));
        compare_with_source(c, &files);
        wf_companion_list_release(&files);
    } else if (path == NULL && model->vocab == BYTE_TOKENS) {
        WEFT_TRY(weft_tokenizer_new_bytes(&c->tokenizer, err));
    }

    /* A tokenizer with more tokens than the model does not belong to it. */
    if (c->tokenizer != NULL && weft_tokenizer_n_vocab(c->tokenizer) > model->vocab) {
        weft_tokenizer_free(c->tokenizer);
        c->tokenizer = NULL;
    }
    return WEFT_OK;
}

/* -- token ids ----------------------------------------------------------------------------- */

/* Sets the ids: those of the source, and the tokenizer's end of a document where the source has
 * none.  A missing id of a source may have a default, but a null is meant. */
static enum weft_status find_ids(struct wf_companions *c, struct weft_error *err)
{
    int32_t end = c->tokenizer == NULL ? WEFT_NO_TOKEN : weft_tokenizer_eot(c->tokenizer);
    json_t *config = NULL;
    json_error_t why;
    bool failed = false;
    if (c->config != NULL && c->keeps_tokenizer)
        WEFT_TRY(
            wf_json_load(c->config, strlen(c->config), 0, "config.json", &config, &why, err));
    for (int role = 0; role < WF_N_TOKEN_ROLES; role++) {
        const json_t *value = json_object_get(config, role_keys[role]);
        bool given = value != NULL && (role != WF_TOKEN_EOS || !json_is_null(value));
        char number[16];
        snprintf(number, sizeof number, "%d", (int)end);

        if (given && !json_is_null(value))
            c->ids[role] = wf_json_dump(value, JSON_ENCODE_ANY);
        else if (!given && end >= 0)
            c->ids[role] = strdup(number);
        else
            continue;
        failed = failed || c->ids[role] == NULL;
        if (role == WF_TOKEN_EOS)
            c->has_own_end = !given;
    }
    json_decref(config);
    return failed ? no_memory(err) : WEFT_OK;
}

/* Returns the first token of a role, or WEFT_NO_TOKEN. */
static int32_t first_id(const struct wf_companions *c, enum wf_token_role role)
{
    const char *text = c->ids[role];
    long id = text == NULL ? -1 : strtol(text + strcspn(text, "0123456789"), NULL, 10);
    return id < 0 || id > INT32_MAX ? WEFT_NO_TOKEN : (int32_t)id;
}

enum weft_status wf_companions_init(struct wf_companions *c, const char *source,
                                    const char *tokenizer, const struct weft_model *model,
                                    struct weft_error *err)
{
    size_t len;
    *c = (struct wf_companions){0};
    enum weft_status st = WEFT_OK;
    if (source != NULL) {
        char *path = wf_path_join(source, "config.json");
        c->source = strdup(source);
        st = path == NULL || c->source == NULL
                 ? no_memory(err)
                 : wf_file_read(path, CONFIG_BYTES, &c->config, &len, err);
        free(path);
    }

    if (st == WEFT_OK)
        st = find_tokenizer(c, tokenizer, model, err);
    if (st == WEFT_OK)
        st = find_ids(c, err);
    if (st != WEFT_OK)
        wf_companions_release(c);
    return st;
}

void wf_companions_release(struct wf_companions *c)
{
    weft_tokenizer_free(c->tokenizer);
    for (int role = 0; role < WF_N_TOKEN_ROLES; role++)
        free(c->ids[role]);
    free(c->source);
    free(c->config);
    *c = (struct wf_companions){0};
}

void wf_companions_describe(const struct wf_companions *c, struct wf_hf_metadata *out)
{
    out->bos = c->ids[WF_TOKEN_BOS];
    out->eos = c->ids[WF_TOKEN_EOS];
    out->pad = c->ids[WF_TOKEN_PAD];
    out->source = c->config;
}

/* -- writing ------------------------------------------------------------------------------- */

static enum weft_status add_json(struct wf_hf_writer *w, const char *name, const json_t *json,
                                 struct weft_error *err)
{
    char *text = json == NULL ? NULL : wf_json_dump(json, JSON_INDENT(2));
    struct wf_text line = {0};
    wf_text_adds(&line, text == NULL ? "" : text);
    wf_text_addc(&line, '\n');
    enum weft_status st = text == NULL || line.failed
                              ? no_memory(err)
                              : wf_hf_writer_add(w, name, line.at, line.len, err);
    wf_text_release(&line);
    free(text);
    return st;
}

static enum weft_status add_tokenizer(const struct wf_companions *c, struct wf_hf_writer *w,
                                      struct weft_error *err)
{
    struct wf_text text = {0};
    enum weft_status st = wf_tokenizer_print_file(c->tokenizer, &text, err);
    if (st == WEFT_OK)
        st = wf_hf_writer_add(w, "tokenizer.json", text.at, text.len, err);
    wf_text_release(&text);
    return st;
}

/* Adds the names of the tokens to an object: "eos_token": "<|endoftext|>".  Returns false if
 * there is no memory. */
static bool set_names(json_t *object, const struct wf_companions *c)
{
    static const char *const keys[WF_N_TOKEN_ROLES] = {[WF_TOKEN_BOS] = "bos_token",
                                                       [WF_TOKEN_EOS] = "eos_token",
                                                       [WF_TOKEN_PAD] = "pad_token"};
    for (int role = 0; role < WF_N_TOKEN_ROLES; role++) {
        size_t len = 0;
        const char *name = weft_tokenizer_token(c->tokenizer, first_id(c, role), &len);
        char *text = name == NULL ? NULL : strndup(name, len);
        bool failed = name != NULL && text == NULL;
        if (text != NULL && wf_is_utf8(text))
            failed = json_object_set_new(object, keys[role], json_string(text)) != 0;
        free(text);
        if (failed)
            return false;
    }
    return true;
}

/* Writes how transformers uses the tokenizer.  Without this file, transformers chooses a class
 * by the type of the model, which adds tokens or changes the tokenizer. */
static enum weft_status add_tokenizer_config(const struct wf_companions *c,
                                             const struct weft_model *model,
                                             struct wf_hf_writer *w, struct weft_error *err)
{
    json_t *names = json_object();
    /* Version 4 of transformers would also return token_type_ids, which models reject. */
    json_t *config =
        json_pack("{s:s, s:i, s:[ss], s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                  "model_max_length", (int)model->ctx, "model_input_names", "input_ids",
                  "attention_mask", "clean_up_tokenization_spaces", 0);
    enum weft_status st = names != NULL && config != NULL && set_names(names, c) &&
                                  json_object_update(config, names) == 0
                              ? add_json(w, "tokenizer_config.json", config, err)
                              : no_memory(err);
    if (st == WEFT_OK && json_object_size(names) > 0)
        st = add_json(w, "special_tokens_map.json", names, err);
    json_decref(names);
    json_decref(config);
    return st;
}

static enum weft_status add_generation_config(const struct wf_companions *c,
                                              struct wf_hf_writer *w, struct weft_error *err)
{
    json_t *config = json_object();
    enum weft_status st = config != NULL ? WEFT_OK : no_memory(err);
    for (int role = 0; st == WEFT_OK && role < WF_N_TOKEN_ROLES; role++) {
        const char *ids = c->ids[role];
        json_t *value = NULL;
        json_error_t why;
        if (ids == NULL)
            continue;
        st =
            wf_json_load(ids, strlen(ids), JSON_DECODE_ANY, role_keys[role], &value, &why, err);
        if (st == WEFT_OK && json_object_set_new(config, role_keys[role], value) != 0)
            st = no_memory(err);
    }
    if (st == WEFT_OK)
        st = add_json(w, "generation_config.json", config, err);
    json_decref(config);
    return st;
}

/* Returns true if a file of the source is copied. */
static bool is_kept(const struct wf_companions *c, const char *name)
{
    return c->keeps_tokenizer || !wf_companion_is_tokenizer(name);
}

static enum weft_status copy_source(const struct wf_companions *c,
                                    const struct wf_companion_list *files,
                                    struct wf_hf_writer *w, struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < files->n; i++) {
        if (!is_kept(c, files->names[i]))
            continue;
        char *path = wf_path_join(c->source, files->names[i]);
        st = path == NULL ? no_memory(err) : wf_hf_writer_copy(w, files->names[i], path, err);
        free(path);
    }
    return st;
}

static enum weft_status add_missing(const struct wf_companions *c,
                                    const struct wf_companion_list *files,
                                    const struct weft_model *model, struct wf_hf_writer *w,
                                    struct weft_error *err)
{
    bool keeps = c->keeps_tokenizer;
    if (c->tokenizer != NULL && !(keeps && has_tokenizer(files)))
        WEFT_TRY(add_tokenizer(c, w, err));
    if (c->tokenizer != NULL &&
        !(keeps && wf_companion_list_has(files, "tokenizer_config.json")))
        WEFT_TRY(add_tokenizer_config(c, model, w, err));
    /* transformers takes the tokens from config.json if generation_config.json is missing. */
    if (c->has_own_end && !(keeps && wf_companion_list_has(files, "generation_config.json")))
        WEFT_TRY(add_generation_config(c, w, err));
    return WEFT_OK;
}

enum weft_status wf_companions_write(const struct wf_companions *c,
                                     const struct weft_model *model, struct wf_hf_writer *w,
                                     struct weft_error *err)
{
    struct wf_companion_list files = {0};
    enum weft_status st = WEFT_OK;
    if (c->source != NULL)
        st = wf_companion_list_init(&files, c->source, err);
    if (st == WEFT_OK)
        st = copy_source(c, &files, w, err);
    if (st == WEFT_OK)
        st = add_missing(c, &files, model, w, err);
    wf_companion_list_release(&files);
    return st;
}

/* -- a copy of the source ------------------------------------------------------------------ */

static enum weft_status make_directory(const char *path, struct weft_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_IO, "cannot make directory %.200s: %s", path, strerror(errno));
}

/* Copies one file, whose name may have a directory before it. */
static enum weft_status copy_file(const char *source, const char *dir, const char *name,
                                  struct weft_error *err)
{
    char *from = wf_path_join(source, name), *to = wf_path_join(dir, name);
    enum weft_status st = from == NULL || to == NULL ? no_memory(err) : WEFT_OK;
    if (st == WEFT_OK && strchr(name, '/') != NULL) {
        char *end = strrchr(to, '/');
        *end = '\0';
        st = make_directory(to, err);
        *end = '/';
    }
    if (st == WEFT_OK)
        st = wf_file_copy(from, to, err);
    free(from);
    free(to);
    return st;
}

/* Removes the files of an earlier copy. */
static enum weft_status clear(const char *dir, struct weft_error *err)
{
    struct wf_companion_list old = {0};
    WEFT_TRY(wf_companion_list_init(&old, dir, err));
    for (size_t i = 0; i < old.n; i++) {
        char *path = wf_path_join(dir, old.names[i]);
        if (path != NULL)
            unlink(path);
        free(path);
    }
    wf_companion_list_release(&old);
    return WEFT_OK;
}

enum weft_status wf_companions_copy(const char *source, const char *dir, struct weft_error *err)
{
    struct wf_companion_list files = {0};
    WEFT_TRY(make_directory(dir, err));
    WEFT_TRY(clear(dir, err));
    WEFT_TRY(wf_companion_list_init(&files, source, err));
    enum weft_status st = copy_file(source, dir, "config.json", err);
    for (size_t i = 0; st == WEFT_OK && i < files.n; i++)
        st = copy_file(source, dir, files.names[i], err);
    wf_companion_list_release(&files);
    return st;
}
