/* Reads the files beside a tokenizer: more added tokens, and which token ends a document. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/printable.h"
#include "training/data/tokenizer_load.h"

/* -- reading ------------------------------------------------------------------------------- */

/* Reads a JSON file in the directory of `path`, if it exists.  *text stays NULL if it does not;
 * otherwise the caller frees it. */
static enum weft_status read_one(const char *path, const char *name, json_t **out, char **text,
                                 size_t *len, struct weft_error *err)
{
    enum { MAX_BYTES = 64 << 20 };
    char file[4096];
    struct stat info;
    const char *slash = strrchr(path, '/');
    int dir_len = slash == NULL ? 0 : (int)(slash + 1 - path);
    int n = snprintf(file, sizeof file, "%.*s%s", dir_len, path, name);
    if (n < 0 || (size_t)n >= sizeof file)
        return WEFT_OK;
    if (stat(file, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? WEFT_OK
                   : WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", file,
                               strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size > MAX_BYTES)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: is not a file of at most %d bytes", file,
                         MAX_BYTES);

    WEFT_TRY(wf_input_read_as(WEFT_DATA, file, text, len, err));
    return wf_loader_parse(&(struct wf_loader){.name = file, .err = err}, *text, *len, out);
}

enum weft_status wf_beside_read(struct wf_beside *b, const char *path, struct weft_error *err)
{
    struct {
        const char *name;
        json_t **out;
    } others[] = {{"added_tokens.json", &b->added},
                  {"config.json", &b->model},
                  {"generation_config.json", &b->generation}};
    WEFT_TRY(read_one(path, "tokenizer_config.json", &b->config, &b->text, &b->len, err));
    for (size_t i = 0; i < WEFT_LEN(others); i++) {
        char *text = NULL;
        size_t len = 0;
        enum weft_status st = read_one(path, others[i].name, others[i].out, &text, &len, err);
        free(text);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

void wf_beside_release(struct wf_beside *b)
{
    json_decref(b->config);
    json_decref(b->added);
    json_decref(b->model);
    json_decref(b->generation);
    free(b->text);
    *b = (struct wf_beside){.config = NULL};
}

/* -- added tokens -------------------------------------------------------------------------- */

static bool has_token(const json_t *list, const char *name)
{
    const json_t *row;
    size_t i;
    json_array_foreach(list, i, row)
    {
        const char *have = json_string_value(json_object_get(row, "content"));
        if (have != NULL && strcmp(have, name) == 0)
            return true;
    }
    return false;
}

static enum weft_status append(struct wf_loader *l, json_t *list, json_t *row, bool *changed)
{
    *changed = true;
    return row != NULL && json_array_append_new(list, row) == 0
               ? WEFT_OK
               : WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the added tokens");
}

/* Adds a row of added_tokens_decoder, whose key is the id. */
static enum weft_status add_decoder_row(struct wf_loader *l, json_t *list, const char *key,
                                        const json_t *row, bool *changed)
{
    const char *name = json_string_value(json_object_get(row, "content"));
    char *end = NULL;
    long long id = strtoll(key, &end, 10);
    if (name == NULL || name[0] == '\0' || end == key || *end != '\0')
        return WF_LOAD_FAIL(l,
                            "added_tokens_decoder in tokenizer_config.json: '%s' is not an id "
                            "with content",
                            wf_printable(key).at);
    if (has_token(list, name))
        return WEFT_OK;
    json_t *copy = json_copy((json_t *)row);
    if (copy != NULL && json_object_set_new(copy, "id", json_integer(id)) != 0) {
        json_decref(copy);
        copy = NULL;
    }
    return append(l, list, copy, changed);
}

enum weft_status wf_beside_add_tokens(const struct wf_beside *b, struct wf_loader *l,
                                      json_t *list, bool *changed)
{
    json_t *rows = json_object_get(b->config, "added_tokens_decoder"), *value;
    const char *key;
    *changed = false;
    json_object_foreach(rows, key, value)
    {
        WEFT_TRY(add_decoder_row(l, list, key, value, changed));
    }
    json_object_foreach(b->added, key, value)
    {
        if (key[0] != '\0' && !has_token(list, key))
            WEFT_TRY(
                append(l, list, json_pack("{sOss}", "id", value, "content", key), changed));
    }
    return WEFT_OK;
}

/* -- the end of a document, the start of a prompt ------------------------------------------ */

/* Returns the name in a field of tokenizer_config.json, a string or an object with "content";
 * NULL: none. */
static const char *token_name(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static bool has_id(const struct weft_tokenizer *t, const json_t *value)
{
    json_int_t id = json_integer_value(value);
    return json_is_integer(value) && id >= 0 && id < t->n_vocab && t->tokens[id].len != 0;
}

/* Sets the end by eos_token of tokenizer_config.json.  Returns WEFT_DATA if the tokenizer does
 * not have it. */
static enum weft_status apply_name(const json_t *config, struct wf_loader *l)
{
    const char *name = token_name(config, "eos_token");
    if (name == NULL)
        return WEFT_OK;
    l->t->eot = weft_tokenizer_find(l->t, name);
    if (l->t->eot != WEFT_NO_TOKEN)
        return WEFT_OK;
    return WF_LOAD_FAIL(l, "has no token '%s', which tokenizer_config.json names as eos_token",
                        wf_printable(name).at);
}

/* Sets the end by eos_token_id of config.json or generation_config.json: an id, or the first
 * of a list that the tokenizer has.  Returns WEFT_DATA if it has none of them. */
static enum weft_status apply_id(const json_t *object, const char *file, struct wf_loader *l)
{
    const json_t *value = json_object_get(object, "eos_token_id");
    if (json_is_array(value)) {
        const json_t *list = value;
        value = json_array_get(list, 0);
        for (size_t i = 1; i < json_array_size(list) && !has_id(l->t, value); i++)
            value = json_array_get(list, i);
    }

    if (!json_is_integer(value))
        return WEFT_OK;
    if (!has_id(l->t, value))
        return WF_LOAD_FAIL(l, "has no token %lld, which %s names as eos_token_id",
                            (long long)json_integer_value(value), file);
    l->t->eot = (int32_t)json_integer_value(value);
    return WEFT_OK;
}

/* Sets the end by the first file that names a token of the tokenizer.  If files name only
 * tokens that it does not have, the error is that of the first of these files. */
static enum weft_status apply_end(const struct wf_beside *b, struct wf_loader *l)
{
    struct weft_error first = {.status = WEFT_OK}, *err = l->err;
    for (int i = 0; i < 3 && l->t->eot == WEFT_NO_TOKEN; i++) {
        struct weft_error missing = {.status = WEFT_OK};
        l->err = &missing;
        enum weft_status st = i == 0   ? apply_name(b->config, l)
                              : i == 1 ? apply_id(b->model, "config.json", l)
                                       : apply_id(b->generation, "generation_config.json", l);
        if (st != WEFT_OK && first.status == WEFT_OK)
            first = missing;
    }

    l->err = err;
    if (l->t->eot != WEFT_NO_TOKEN || first.status == WEFT_OK)
        return WEFT_OK;
    if (err != NULL)
        *err = first;
    return first.status;
}

/* Applies add_bos_token, which overrides the post-processor. */
static enum weft_status apply_bos(const struct wf_beside *b, struct wf_loader *l)
{
    const json_t *adds = json_object_get(b->config, "add_bos_token");
    const char *name = token_name(b->config, "bos_token");
    if (json_is_false(adds))
        l->t->n_prompt_prefix = 0;
    if (!json_is_true(adds) || name == NULL || l->t->n_prompt_prefix > 0)
        return WEFT_OK;
    int32_t id = weft_tokenizer_find(l->t, name);
    if (id == WEFT_NO_TOKEN)
        return WF_LOAD_FAIL(l,
                            "has no token '%s', which tokenizer_config.json names as "
                            "bos_token",
                            wf_printable(name).at);
    l->t->prompt_prefix[l->t->n_prompt_prefix++] = id;
    return WEFT_OK;
}

enum weft_status wf_beside_apply(struct wf_beside *b, struct wf_loader *l)
{
    WEFT_TRY(apply_end(b, l));
    WEFT_TRY(apply_bos(b, l));
    wf_tokenizer_guess_eot(l->t);

    l->t->config = b->text;
    l->t->config_len = b->len;
    b->text = NULL;
    return WEFT_OK;
}
