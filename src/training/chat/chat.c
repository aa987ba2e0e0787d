/* Finds the chat template of a model and renders conversations. */
#include "training/chat/chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "config/json_input.h"
#include "training/chat/chat_priv.h"

enum { MAX_BYTES = 1 << 24 };

/* -- opening ------------------------------------------------------------------------------- */

/* Returns the text of a special token: a string, or the "content" of an object. */
static json_t *token_text(json_t *value)
{
    if (json_is_object(value))
        value = json_object_get(value, "content");
    return json_is_string(value) ? value : NULL;
}

/* Returns an object with the special tokens of tokenizer_config.json, or NULL without
 * memory. */
static json_t *special_tokens(json_t *config)
{
    json_t *out = json_object(), *value;
    const char *key;
    json_object_foreach(config, key, value)
    {
        size_t n = strlen(key);
        json_t *text = token_text(value);
        if (text != NULL && n > 6 && strcmp(key + n - 6, "_token") == 0)
            json_object_set(out, key, text);
    }
    return out;
}

/* Returns the template in tokenizer_config.json: a string, or the one with the name "default"
 * of a list.  NULL: there is none. */
static json_t *template_of(json_t *config)
{
    json_t *found = json_object_get(config, "chat_template"), *entry;
    size_t i;
    if (json_is_string(found))
        return found;
    json_array_foreach(found, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        json_t *text = json_object_get(entry, "template");
        if (name != NULL && strcmp(name, "default") == 0 && json_is_string(text))
            return text;
    }
    return NULL;
}

/* Reads tokenizer_config.json; *out is NULL if the file does not exist. */
static enum weft_status read_config(const char *path, json_t **out, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    json_error_t why;
    *out = NULL;
    if (access(path, F_OK) != 0)
        return WEFT_OK;
    WEFT_TRY(wf_file_read(path, MAX_BYTES, &text, &len, err));
    enum weft_status st = wf_json_load(text, len, 0, path, out, &why, err);
    free(text);
    WEFT_TRY(st);
    if (*out == NULL)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s:%d: not valid JSON: %.100s", path, why.line,
                         why.text);
    return WEFT_OK;
}

static enum weft_status open_template(const char *path, json_t *config, struct wf_chat **out,
                                      struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    json_t *tokens = special_tokens(config);
    enum weft_status st = wf_file_read(path, MAX_BYTES, &text, &len, err);
    if (st == WEFT_OK)
        st = wf_chat_new(text, len, path, tokens, out, err);
    free(text);
    json_decref(tokens);
    return st;
}

/* Opens the template of tokenizer_config.json, if it has one. */
static enum weft_status open_config(const char *path, json_t *config, struct wf_chat **out,
                                    struct weft_error *err)
{
    const json_t *found = template_of(config);
    char name[300];
    if (found == NULL)
        return WEFT_OK;
    snprintf(name, sizeof name, "%.240s: chat_template", path);
    json_t *tokens = special_tokens(config);
    enum weft_status st = wf_chat_new(json_string_value(found), json_string_length(found), name,
                                      tokens, out, err);
    json_decref(tokens);
    return st;
}

enum weft_status wf_chat_open(const char *path, const char *file, struct wf_chat **out,
                              struct weft_error *err)
{
    /* A tokenizer may be named by one of its files. */
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    char *dir = path == NULL            ? strdup(".")
                : wf_is_directory(path) ? strdup(path)
                : slash == NULL         ? strdup(".")
                                        : strndup(path, (size_t)(slash - path) + 1);
    char *config_path = dir == NULL ? NULL : wf_path_join(dir, "tokenizer_config.json");
    char *jinja_path = dir == NULL ? NULL : wf_path_join(dir, "chat_template.jinja");
    json_t *config = NULL;
    struct wf_chat *chat = NULL;
    enum weft_status st = WEFT_OK;
    if (config_path == NULL || jinja_path == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a template");
    if (st == WEFT_OK && path != NULL)
        st = read_config(config_path, &config, err);

    if (st == WEFT_OK && file != NULL)
        st = open_template(file, config, &chat, err);
    else if (st == WEFT_OK && path != NULL && access(jinja_path, F_OK) == 0)
        st = open_template(jinja_path, config, &chat, err);
    else if (st == WEFT_OK)
        st = open_config(config_path, config, &chat, err);
    json_decref(config);
    free(dir);
    free(config_path);
    free(jinja_path);
    if (st == WEFT_OK)
        *out = chat;
    if (st == WEFT_CKPT && err != NULL)
        err->status = WEFT_DATA;
    return st == WEFT_CKPT ? WEFT_DATA : st;
}

enum weft_status wf_chat_new(const char *text, size_t len, const char *name, json_t *variables,
                             struct wf_chat **out, struct weft_error *err)
{
    struct wf_chat *c = calloc(1, sizeof *c);
    if (c == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a chat template");
    c->variables = variables == NULL ? json_object() : json_deep_copy(variables);
    enum weft_status st = c->variables == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a chat template")
                              : wf_template_parse(text, len, name, &c->template, err);
    if (st != WEFT_OK) {
        wf_chat_free(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

void wf_chat_free(struct wf_chat *c)
{
    if (c == NULL)
        return;
    wf_template_free(c->template);
    json_decref(c->variables);
    free(c);
}

/* -- rendering ----------------------------------------------------------------------------- */

enum weft_status wf_chat_render_part(const struct wf_chat *c, json_t *record, size_t n_messages,
                                     bool add_prompt, struct wf_template_output *out,
                                     struct weft_error *err)
{
    static const char *const optional[] = {"tools", "documents"};
    const json_t *all = json_object_get(record, "messages");
    json_t *some = json_array();
    /* A shallow copy: render may run on several threads, but references of c->variables must
     * not be counted by several threads.  jansson counts them atomically. */
    json_t *variables = json_copy(c->variables);
    bool failed = some == NULL || variables == NULL;
    for (size_t i = 0; !failed && i < n_messages && i < json_array_size(all); i++)
        failed = json_array_append(some, json_array_get(all, i)) != 0;
    failed =
        failed || json_object_set_new(variables, "messages", some) != 0 ||
        json_object_set_new(variables, "add_generation_prompt", json_boolean(add_prompt)) != 0;

    for (size_t i = 0; !failed && i < WEFT_LEN(optional); i++) {
        json_t *value = json_object_get(record, optional[i]);
        failed = json_object_set_new(variables, optional[i],
                                     value == NULL ? json_null() : json_incref(value)) != 0;
    }
    enum weft_status st = failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a conversation")
                                 : wf_template_render(c->template, variables, out, err);
    json_decref(variables);
    return st;
}

enum weft_status wf_chat_render(const struct wf_chat *c, json_t *record, bool add_prompt,
                                struct wf_text *out, struct weft_error *err)
{
    struct wf_template_output output = {.text = *out};
    enum weft_status st = wf_chat_render_part(c, record, SIZE_MAX, add_prompt, &output, err);
    *out = output.text;
    free(output.generated);
    return st;
}
