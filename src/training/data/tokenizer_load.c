/* Reads tokenizers: tokenizer.json, or vocab.json with merges.txt.  The files are
 * untrusted input. */
#include "training/data/tokenizer_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/printable.h"
#include "config/json_input.h"

enum { MAX_FILE_BYTES = 256 << 20 };

static const char eot_name[] = "<|endoftext|>";

/* -- JSON ---------------------------------------------------------------------------------- */

enum weft_status wf_loader_fail(const struct wf_loader *l, const char *file, int line,
                                const char *format, ...)
{
    char fault[300];
    va_list args;
    va_start(args, format);
    vsnprintf(fault, sizeof fault, format, args);
    va_end(args);
    return wf_error_set(l->err, WEFT_DATA, file, line, "%.160s: %s", wf_printable(l->name).at,
                        fault);
}

enum weft_status wf_loader_parse(const struct wf_loader *l, const char *text, size_t len,
                                 json_t **out)
{
    json_error_t why;
    json_t *root = NULL;
    WEFT_TRY(wf_json_load(text, len, JSON_REJECT_DUPLICATES, l->name, &root, &why, l->err));
    if (root == NULL)
        return WF_LOAD_FAIL(l, "line %d: %s", why.line, wf_printable(why.text).at);
    if (!json_is_object(root)) {
        json_decref(root);
        return WF_LOAD_FAIL(l, "is not an object");
    }
    *out = root;
    return WEFT_OK;
}

const char *wf_loader_type(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL ? type : "";
}

enum weft_status wf_loader_bool(const struct wf_loader *l, const json_t *object,
                                const char *key, bool fallback, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!wf_is_absent(value) && !json_is_boolean(value))
        return WF_LOAD_FAIL(l, "%s is neither true nor false", key);
    *out = wf_is_absent(value) ? fallback : json_is_true(value);
    return WEFT_OK;
}

/* -- tokenizer.json ------------------------------------------------------------------------ */

static enum weft_status read_tokenizer(struct wf_loader *l, const json_t *root,
                                       const json_t *added)
{
    const json_t *model = json_object_get(root, "model");
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    WEFT_TRY(wf_loader_read_pipeline(l, root));
    if (!wf_is_absent(added) && !json_is_array(added))
        return WF_LOAD_FAIL(l, "added_tokens is not a list");
    WEFT_TRY(wf_loader_read_vocab(l, json_object_get(model, "vocab"), added, unknown));
    WEFT_TRY(wf_loader_read_merges(l, json_object_get(model, "merges")));
    return wf_loader_read_prefix(l, json_object_get(root, "post_processor"));
}

/* Returns true if the tokens are bytes: the file that weft writes for its byte tokenizer. */
static bool is_byte_tokenizer(const struct weft_tokenizer *t)
{
    for (int32_t b = 0; b < 256; b++)
        if (t->byte_ids[b] != b)
            return false;
    const struct wf_pipeline *p = &t->pipe;
    bool plain = !p->by_chars && p->form == WF_UNICODE_AS_IS && p->prefix == WF_PREFIX_NEVER &&
                 t->n_added == 1 && t->added[0].special && !t->added[0].lstrip &&
                 !t->added[0].rstrip && !t->added[0].single_word;
    return plain && t->n_vocab == 257 && t->n_pairs == 0 && t->added[0].id == 256;
}

/* Stores the tokenizer in *out on success and frees it on error. */
static enum weft_status finish(struct wf_loader *l, enum weft_status st,
                               struct weft_tokenizer **out)
{
    wf_text_release(&l->scratch);
    wf_steps_release(&l->pipe.steps);
    if (st == WEFT_OK)
        st = wf_tokenizer_finish(l->t, l->err);
    if (st == WEFT_OK)
        *out = l->t;
    else
        weft_tokenizer_free(l->t);
    return st;
}

/* Keeps a copy of the text from which the tokenizer was read. */
static enum weft_status keep_source(struct wf_loader *l, const char *text, size_t len)
{
    l->t->source = malloc(len + 1);
    if (l->t->source == NULL)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for %zu bytes of %.160s", len, l->name);
    memcpy(l->t->source, text, len);
    l->t->source[len] = '\0';
    l->t->source_len = len;
    return WEFT_OK;
}

/* Reads a tokenizer.json and the files beside it. */
static enum weft_status load_json(struct wf_loader *l, const char *text, size_t len,
                                  json_t *root, struct wf_beside *beside)
{
    json_t *added = json_object_get(root, "added_tokens");
    bool changed = false;
    if (added == NULL && (beside->added != NULL || beside->config != NULL) &&
        json_object_set_new(root, "added_tokens", json_array()) == 0)
        added = json_object_get(root, "added_tokens");
    if (json_is_array(added))
        WEFT_TRY(wf_beside_add_tokens(beside, l, added, &changed));
    WEFT_TRY(read_tokenizer(l, root, added));
    WEFT_TRY(wf_beside_apply(beside, l));
    l->t->is_bytes = is_byte_tokenizer(l->t);
    if (!changed)
        return keep_source(l, text, len);

    char *all = wf_json_dump(root, JSON_INDENT(1));
    enum weft_status st = all == NULL
                              ? WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for %.160s", l->name)
                              : keep_source(l, all, strlen(all));
    free(all);
    return st;
}

static enum weft_status parse_json(const char *json, size_t len, const char *name,
                                   struct wf_beside *beside, struct weft_tokenizer **out,
                                   struct weft_error *err)
{
    struct wf_loader l = {.name = name, .err = err};
    json_t *root = NULL;
    wf_char_to_byte(l.byte_of);
    WEFT_TRY(wf_loader_parse(&l, json, len, &root));
    enum weft_status st = load_json(&l, json, len, root, beside);
    json_decref(root);
    return finish(&l, st, out);
}

enum weft_status wf_tokenizer_parse(const char *json, size_t len, const char *name,
                                    struct weft_tokenizer **out, struct weft_error *err)
{
    struct wf_beside none = {.config = NULL};
    return parse_json(json, len, name, &none, out, err);
}

/* -- vocab.json and merges.txt ------------------------------------------------------------- */

/* The texts of vocab.json and merges.txt, and their names for error messages. */
struct gpt2_files {
    const char *vocab, *merges, *vocab_name, *merges_name; /* borrowed */
    size_t vocab_len, merges_len;
};

/* Adds the end of a document, which these files do not mark as special. */
static enum weft_status add_eot(struct wf_loader *l, const json_t *vocab, json_t *added)
{
    const json_t *id = json_object_get(vocab, eot_name), *row;
    size_t i;
    json_array_foreach(added, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "content"));
        if (name != NULL && strcmp(name, eot_name) == 0)
            id = NULL;
    }
    if (id == NULL)
        return WEFT_OK;
    json_t *token = json_pack("{sIsssb}", "id", json_integer_value(id), "content", eot_name,
                              "special", true);
    return json_array_append_new(added, token) == 0
               ? WEFT_OK
               : WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the added tokens");
}

static enum weft_status load_gpt2(struct wf_loader *l, const struct gpt2_files *f,
                                  json_t *vocab, json_t *added, struct wf_beside *beside)
{
    bool changed;
    if (added == NULL)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the added tokens");
    l->pipe.steps =
        (struct wf_steps){.at = {{.kind = WF_STEP_PATTERN, .pattern = WF_SPLIT_GPT2}}, .n = 1};
    WEFT_TRY(wf_beside_add_tokens(beside, l, added, &changed));
    WEFT_TRY(add_eot(l, vocab, added));
    WEFT_TRY(wf_loader_read_vocab(l, vocab, added, NULL));
    WEFT_TRY(wf_beside_apply(beside, l));
    l->name = f->merges_name;
    return wf_loader_read_merge_lines(l, f->merges, f->merges_len);
}

static enum weft_status parse_gpt2(const struct gpt2_files *f, struct wf_beside *beside,
                                   struct weft_tokenizer **out, struct weft_error *err)
{
    struct wf_loader l = {.name = f->vocab_name, .err = err};
    json_t *vocab = NULL;
    wf_char_to_byte(l.byte_of);
    WEFT_TRY(wf_loader_parse(&l, f->vocab, f->vocab_len, &vocab));
    json_t *added = json_array();
    enum weft_status st = load_gpt2(&l, f, vocab, added, beside);
    json_decref(added);
    json_decref(vocab);
    return finish(&l, st, out);
}

enum weft_status wf_tokenizer_parse_gpt2(const char *vocab, size_t vocab_len, const char *name,
                                         const char *merges, size_t merges_len,
                                         const char *merges_name, struct weft_tokenizer **out,
                                         struct weft_error *err)
{
    struct gpt2_files f = {vocab, merges, name, merges_name, vocab_len, merges_len};
    struct wf_beside none = {.config = NULL};
    return parse_gpt2(&f, &none, out, err);
}

/* -- files --------------------------------------------------------------------------------- */

static enum weft_status read_file(const char *path, char **text, size_t *len,
                                  struct weft_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", path,
                         strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size > MAX_FILE_BYTES)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: is not a file of at most %d bytes", path,
                         MAX_FILE_BYTES);
    return wf_input_read_as(WEFT_DATA, path, text, len, err);
}

static enum weft_status open_json(const char *path, struct weft_tokenizer **out,
                                  struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct wf_beside beside = {.config = NULL};
    enum weft_status st = read_file(path, &text, &len, err);
    if (st == WEFT_OK)
        st = wf_beside_read(&beside, path, err);
    if (st == WEFT_OK)
        st = parse_json(text, len, path, &beside, out, err);
    wf_beside_release(&beside);
    free(text);
    return st;
}

static enum weft_status open_gpt2(const char *vocab_path, const char *merges_path,
                                  struct weft_tokenizer **out, struct weft_error *err)
{
    char *vocab = NULL, *merges = NULL;
    size_t vocab_len = 0, merges_len = 0;
    struct wf_beside beside = {.config = NULL};
    enum weft_status st = read_file(vocab_path, &vocab, &vocab_len, err);
    if (st == WEFT_OK)
        st = read_file(merges_path, &merges, &merges_len, err);
    if (st == WEFT_OK)
        st = wf_beside_read(&beside, vocab_path, err);
    if (st == WEFT_OK) {
        struct gpt2_files f = {vocab, merges, vocab_path, merges_path, vocab_len, merges_len};
        st = parse_gpt2(&f, &beside, out, err);
    }
    wf_beside_release(&beside);
    free(vocab);
    free(merges);
    return st;
}

static bool join(char *out, size_t size, const char *dir, size_t dir_len, const char *name)
{
    int n = snprintf(out, size, "%.*s%s%s", (int)dir_len, dir, dir_len > 0 ? "/" : "", name);
    return n > 0 && (size_t)n < size;
}

enum weft_status weft_tokenizer_open(const char *path, struct weft_tokenizer **out,
                                     struct weft_error *err)
{
    char json[4096], vocab[4096], merges[4096];
    struct stat info;
    size_t len = strlen(path);
    if (stat(path, &info) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA),
                         "%.240s: %s; expected a tokenizer.json or a folder with one", path,
                         strerror(errno));

    bool is_dir = S_ISDIR(info.st_mode), is_gpt2 = false;
    if (!is_dir) {
        const char *slash = strrchr(path, '/');
        const char *file = slash == NULL ? path : slash + 1;
        is_gpt2 = strcmp(file, "vocab.json") == 0 || strcmp(file, "merges.txt") == 0;
        if (!is_gpt2)
            return open_json(path, out, err);
        len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    }

    if (len >= sizeof json || !join(json, sizeof json, path, len, "tokenizer.json") ||
        !join(vocab, sizeof vocab, path, len, "vocab.json") ||
        !join(merges, sizeof merges, path, len, "merges.txt"))
        return WEFT_FAIL(err, WEFT_USAGE, "%.240s: the path is too long", path);

    if (!is_gpt2 && wf_is_file(json))
        return open_json(json, out, err);
    if (!wf_is_file(vocab) || !wf_is_file(merges))
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: has neither tokenizer.json nor vocab.json and merges.txt",
                         path);
    return open_gpt2(vocab, merges, out, err);
}
