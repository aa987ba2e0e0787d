/* Reads tokenizers: tokenizer.json, or vocab.json with merges.txt.  The files are
 * untrusted input. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/printable.h"
#include "config/json_input.h"
#include "training/data/tokenizer_priv.h"

enum {
    MAX_FILE_BYTES = 256 << 20,
    MAX_TOKEN_BYTES = 1 << 16,
    MAX_ADDED = 1 << 13, /* maximum number of added tokens, which are searched linearly */
    /* maximum number of ids per token: the tables have one entry per id, so unused ids of a
     * short file could otherwise take more time and memory than its tokens */
    MAX_IDS_PER_TOKEN = 16,
};

static const char eot_name[] = "<|endoftext|>";

/* The state of loading: the tokenizer that is being built and its source. */
struct loader {
    const char *name; /* borrowed: file name for error messages */
    struct weft_tokenizer *t;
    int16_t byte_of[WF_BYTE_CHARS];
    struct wf_text scratch; /* buffer for the bytes of a token */
    struct weft_error *err;
};

#define FAIL(l, ...) fail_in(l, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static enum weft_status
fail_in(const struct loader *l, int line, const char *format, ...)
{
    char fault[300];
    va_list args;
    va_start(args, format);
    vsnprintf(fault, sizeof fault, format, args);
    va_end(args);
    return wf_error_set(l->err, WEFT_DATA, __FILE__, line, "%.160s: %s",
                        wf_printable(l->name).at, fault);
}

/* -- JSON ---------------------------------------------------------------------------------- */

static enum weft_status parse_json(struct loader *l, const char *text, size_t len, json_t **out)
{
    json_error_t why;
    WEFT_TRY(wf_json_load(text, len, JSON_REJECT_DUPLICATES, l->name, out, &why, l->err));
    if (*out == NULL)
        return FAIL(l, "line %d: %s", why.line, wf_printable(why.text).at);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return FAIL(l, "is not an object");
    }
    return WEFT_OK;
}

/* Returns true if a JSON field is missing or null. */
static bool is_absent(const json_t *value)
{
    return value == NULL || json_is_null(value);
}

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type != NULL ? type : "";
}

static bool is_type(const json_t *object, const char *type)
{
    return strcmp(type_of(object), type) == 0;
}

static enum weft_status unsupported(struct loader *l, const char *what, const json_t *object)
{
    return FAIL(l, "%s '%s' is not supported; only byte-level BPE is", what,
                wf_printable(type_of(object)).at);
}

/* Reads a boolean field, or returns `fallback` if the field is absent. */
static enum weft_status get_bool(struct loader *l, const json_t *object, const char *key,
                                 bool fallback, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!is_absent(value) && !json_is_boolean(value))
        return FAIL(l, "%s is neither true nor false", key);
    *out = is_absent(value) ? fallback : json_is_true(value);
    return WEFT_OK;
}

/* -- tokens -------------------------------------------------------------------------------- */

/* Converts characters that represent bytes to these bytes and stores them in l->scratch.
 * Returns false if a character does not represent a byte. */
static bool to_bytes(struct loader *l, const char *chars, size_t len)
{
    l->scratch.len = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)chars[i];
        if (c >= 0x80) {
            unsigned low = i + 1 < len ? (unsigned char)chars[++i] : 0;
            if (c >= 0xE0 || (low & 0xC0) != 0x80)
                return false;
            c = (c & 0x1F) << 6 | (low & 0x3F);
        }
        if (c >= WF_BYTE_CHARS || l->byte_of[c] < 0)
            return false;
        wf_text_addc(&l->scratch, (char)l->byte_of[c]);
    }
    return true;
}

static enum weft_status get_id(struct loader *l, const json_t *value, const char *token,
                               int32_t *out)
{
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= WF_TOKENIZER_MAX_VOCAB)
        return FAIL(l, "token '%s' has no id from 0 to %d", wf_printable(token).at,
                    WF_TOKENIZER_MAX_VOCAB - 1);
    *out = (int32_t)id;
    return WEFT_OK;
}

/* Returns the text of the added token with this id.  count_vocab() has already checked the
 * ids and texts of added tokens. */
static const char *added_name(const json_t *added, int32_t id)
{
    const json_t *row;
    size_t i;
    json_array_foreach(added, i, row)
    {
        if (json_integer_value(json_object_get(row, "id")) == id)
            return json_string_value(json_object_get(row, "content"));
    }
    return NULL;
}

static enum weft_status set_token(struct loader *l, int32_t id, const char *text,
                                  const char *bytes, size_t len)
{
    if (len == 0 || len > MAX_TOKEN_BYTES)
        return FAIL(l, "token %d has %zu bytes (expected 1 to %d)", id, len, MAX_TOKEN_BYTES);
    if (l->t->tokens[id].len != 0)
        return FAIL(l, "id %d is used twice, the second time for '%s'", id,
                    wf_printable(text).at);
    return wf_tokenizer_set(l->t, id, bytes, len, l->err);
}

static enum weft_status add_vocab_token(struct loader *l, const json_t *added, const char *text,
                                        int32_t id)
{
    size_t len = strlen(text);
    if (to_bytes(l, text, len)) {
        if (l->scratch.failed)
            return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the vocabulary");
        return set_token(l, id, text, l->scratch.at, l->scratch.len);
    }
    const char *name = added_name(added, id);
    if (name == NULL || strcmp(name, text) != 0)
        return FAIL(l,
                    "token '%s' is not written in byte characters; only byte-level "
                    "vocabularies are supported",
                    wf_printable(text).at);
    return set_token(l, id, text, text, len);
}

/* Computes the size of the vocabulary, which is the largest id plus one. */
static enum weft_status count_vocab(struct loader *l, json_t *vocab, const json_t *added,
                                    uint32_t *out)
{
    const char *text;
    json_t *value;
    const json_t *row;
    size_t i;
    int32_t id, max_id = -1;

    if (json_object_size(vocab) == 0)
        return FAIL(l, "has no vocabulary");

    json_object_foreach(vocab, text, value)
    {
        WEFT_TRY(get_id(l, value, text, &id));
        max_id = id > max_id ? id : max_id;
    }

    json_array_foreach(added, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "content"));
        bool special;
        if (name == NULL || name[0] == '\0')
            return FAIL(l, "added token %zu has no content", i);
        WEFT_TRY(get_id(l, json_object_get(row, "id"), name, &id));
        WEFT_TRY(get_bool(l, row, "special", false, &special));
        if (!special)
            return FAIL(l, "added token '%s' is not special, which is not supported",
                        wf_printable(name).at);
        max_id = id > max_id ? id : max_id;
    }

    size_t n_tokens = json_object_size(vocab) + json_array_size(added);
    if ((size_t)max_id / MAX_IDS_PER_TOKEN >= n_tokens)
        return FAIL(l, "has the id %d, but only %zu tokens; expected ids without large gaps",
                    max_id, n_tokens);
    *out = (uint32_t)max_id + 1;
    return WEFT_OK;
}

/* Adds a special token.  The vocabulary may already contain a token with this id if its text is
 * the same. */
static enum weft_status add_special(struct loader *l, const char *name, int32_t id)
{
    struct wf_token_span old = l->t->tokens[id];
    size_t len = strlen(name);
    if (weft_tokenizer_find(l->t, name) != WEFT_NO_TOKEN)
        return FAIL(l, "token '%s' is added twice", wf_printable(name).at);
    if (old.len == 0)
        WEFT_TRY(set_token(l, id, name, name, len));
    else if (old.len != len || memcmp(l->t->pool.at + old.begin, name, len) != 0)
        return FAIL(l, "id %d is used twice, the second time for '%s'", id,
                    wf_printable(name).at);
    return wf_tokenizer_add_special(l->t, name, id, l->err);
}

static enum weft_status read_vocab(struct loader *l, json_t *vocab, const json_t *added)
{
    const char *text;
    json_t *value;
    const json_t *row;
    size_t i;
    int32_t id;
    uint32_t n = 0;
    if (json_array_size(added) > MAX_ADDED)
        return FAIL(l, "has more than %d added tokens", MAX_ADDED);
    WEFT_TRY(count_vocab(l, vocab, added, &n));
    WEFT_TRY(wf_tokenizer_new(n, &l->t, l->err));
    json_object_foreach(vocab, text, value)
    {
        WEFT_TRY(get_id(l, value, text, &id));
        WEFT_TRY(add_vocab_token(l, added, text, id));
    }

    WEFT_TRY(wf_tokenizer_index(l->t, l->name, l->err));
    json_array_foreach(added, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "content"));
        WEFT_TRY(get_id(l, json_object_get(row, "id"), name, &id));
        WEFT_TRY(add_special(l, name, id));
    }
    return WEFT_OK;
}

/* -- merges -------------------------------------------------------------------------------- */

/* Adds a merge.  The left token, the right token and the result must be in the vocabulary. */
static enum weft_status add_merge(struct loader *l, size_t i, const char *left, size_t n_left,
                                  const char *right, size_t n_right)
{
    char all[2 * MAX_TOKEN_BYTES];
    struct wf_token_pair pair = {WEFT_NO_TOKEN, WEFT_NO_TOKEN};
    size_t n = 0, n_both = 0;
    if (to_bytes(l, left, n_left) && l->scratch.len <= MAX_TOKEN_BYTES && l->scratch.len > 0) {
        n = l->scratch.len;
        memcpy(all, l->scratch.at, n);
        pair.left = wf_tokenizer_lookup(l->t, all, n);
    }
    if (to_bytes(l, right, n_right) && l->scratch.len <= MAX_TOKEN_BYTES &&
        l->scratch.len > 0) {
        n_both = n + l->scratch.len;
        memcpy(all + n, l->scratch.at, l->scratch.len);
        pair.right = wf_tokenizer_lookup(l->t, all + n, l->scratch.len);
    }

    if (l->scratch.failed)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for merge %zu", i);
    if (pair.left == WEFT_NO_TOKEN || pair.right == WEFT_NO_TOKEN)
        return FAIL(l, "merge %zu names a token that is not in the vocabulary", i);
    int32_t result = wf_tokenizer_lookup(l->t, all, n_both);
    if (result == WEFT_NO_TOKEN)
        return FAIL(l, "the result of merge %zu is not in the vocabulary", i);
    if (!wf_tokenizer_add_merge(l->t, pair, result))
        return FAIL(l, "merge %zu is a duplicate", i);
    return WEFT_OK;
}

/* Adds a merge of the form "a b".  The space is a unique separator, because no byte is
 * represented by a space. */
static enum weft_status add_merge_line(struct loader *l, size_t i, const char *line, size_t len)
{
    const char *space = memchr(line, ' ', len);
    if (space == NULL)
        return FAIL(l, "merge %zu is not a pair of tokens", i);
    size_t n = (size_t)(space - line);
    return add_merge(l, i, line, n, space + 1, len - n - 1);
}

static enum weft_status read_merges(struct loader *l, const json_t *merges)
{
    const json_t *row;
    size_t i;
    if (!json_is_array(merges))
        return FAIL(l, "model.merges is not a list");
    WEFT_TRY(wf_tokenizer_reserve_merges(l->t, json_array_size(merges), l->err));
    json_array_foreach(merges, i, row)
    {
        const json_t *a = json_array_get(row, 0), *b = json_array_get(row, 1);
        if (json_is_string(row))
            WEFT_TRY(add_merge_line(l, i, json_string_value(row), json_string_length(row)));
        else if (json_array_size(row) == 2 && json_is_string(a) && json_is_string(b))
            WEFT_TRY(add_merge(l, i, json_string_value(a), json_string_length(a),
                               json_string_value(b), json_string_length(b)));
        else
            return FAIL(l, "merge %zu is not a pair of tokens", i);
    }
    return WEFT_OK;
}

/* -- the pre-tokenizer --------------------------------------------------------------------- */

struct splitting {
    bool split, byte_level; /* pre-tokenizer steps that were read */
    enum wf_split kind;
};

static enum weft_status read_split(struct loader *l, const json_t *step, struct splitting *s)
{
    bool invert;
    const char *pattern =
        json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    WEFT_TRY(get_bool(l, step, "invert", false, &invert));
    if (s->split || s->byte_level)
        return FAIL(l, "pre_tokenizer: a Split after another step is not supported");
    if (pattern == NULL || invert || behavior == NULL || strcmp(behavior, "Isolated") != 0)
        return FAIL(l, "pre_tokenizer: only a Split by a Regex, Isolated, is supported");
    if (!wf_split_find(pattern, &s->kind))
        return FAIL(l,
                    "pre_tokenizer: the pattern '%s' is not supported; those of GPT-2, Llama 3 "
                    "and Qwen 2 are",
                    wf_printable(pattern).at);
    s->split = true;
    return WEFT_OK;
}

static enum weft_status read_byte_level(struct loader *l, const json_t *step,
                                        struct splitting *s)
{
    bool prefix, regex;
    WEFT_TRY(get_bool(l, step, "add_prefix_space", true, &prefix));
    WEFT_TRY(get_bool(l, step, "use_regex", true, &regex));
    if (prefix)
        return FAIL(l, "pre_tokenizer: add_prefix_space is not supported");
    if (s->byte_level || regex == s->split)
        return FAIL(l, "pre_tokenizer: %s is not supported",
                    regex ? "splitting twice" : "byte-level without a split");
    if (regex)
        s->kind = WF_SPLIT_GPT2;
    s->byte_level = true;
    return WEFT_OK;
}

static enum weft_status read_step(struct loader *l, const json_t *step, struct splitting *s)
{
    if (is_type(step, "Split"))
        return read_split(l, step, s);
    if (is_type(step, "ByteLevel"))
        return read_byte_level(l, step, s);
    return unsupported(l, "pre_tokenizer", step);
}

static enum weft_status read_pre_tokenizer(struct loader *l, const json_t *pre)
{
    struct splitting s = {0};
    const json_t *step;
    size_t i;
    if (is_type(pre, "Sequence")) {
        json_array_foreach(json_object_get(pre, "pretokenizers"), i, step)
        {
            WEFT_TRY(read_step(l, step, &s));
        }
    } else {
        WEFT_TRY(read_step(l, pre, &s));
    }
    if (!s.byte_level)
        return FAIL(l, "pre_tokenizer: has no ByteLevel; only byte-level BPE is supported");
    l->t->split = s.kind;
    return WEFT_OK;
}

/* -- tokenizer.json ------------------------------------------------------------------------ */

/* Returns an error for options that are not implemented and would change the tokens. */
static enum weft_status check_model(struct loader *l, const json_t *root, const json_t *model)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *decoder = json_object_get(root, "decoder");
    const json_t *normalizer = json_object_get(root, "normalizer");
    const json_t *dropout = json_object_get(model, "dropout");
    bool fallback;
    if (!json_is_object(model))
        return FAIL(l, "has no model; expected a tokenizer.json");
    if (!is_absent(json_object_get(model, "type")) && !is_type(model, "BPE"))
        return unsupported(l, "model", model);
    WEFT_TRY(get_bool(l, model, "byte_fallback", false, &fallback));
    if (fallback)
        return FAIL(l, "model.byte_fallback is not supported; only byte-level BPE is");
    for (size_t i = 0; i < WEFT_LEN(texts); i++) {
        const json_t *value = json_object_get(model, texts[i]);
        if (!is_absent(value) && json_string_length(value) > 0)
            return FAIL(l, "model.%s is not supported", texts[i]);
    }

    if (!is_absent(dropout) && json_number_value(dropout) != 0)
        return FAIL(l, "model.dropout is not supported");
    if (!is_absent(normalizer))
        return unsupported(l, "normalizer", normalizer);
    if (!is_absent(decoder) && !is_type(decoder, "ByteLevel"))
        return unsupported(l, "decoder", decoder);
    return WEFT_OK;
}

static enum weft_status read_tokenizer(struct loader *l, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *added = json_object_get(root, "added_tokens");
    WEFT_TRY(check_model(l, root, model));
    if (!is_absent(added) && !json_is_array(added))
        return FAIL(l, "added_tokens is not a list");
    WEFT_TRY(read_vocab(l, json_object_get(model, "vocab"), added));
    WEFT_TRY(read_merges(l, json_object_get(model, "merges")));
    WEFT_TRY(get_bool(l, model, "ignore_merges", false, &l->t->ignore_merges));
    WEFT_TRY(read_pre_tokenizer(l, json_object_get(root, "pre_tokenizer")));
    wf_tokenizer_find_eot(l->t);
    return WEFT_OK;
}

/* Returns true if the tokens are bytes: the file that weft writes for its byte tokenizer. */
static bool is_byte_tokenizer(const struct weft_tokenizer *t)
{
    for (int32_t b = 0; b < 256; b++)
        if (t->byte_ids[b] != b)
            return false;
    return t->n_vocab == 257 && t->n_pairs == 0 && t->n_special == 1 && t->special[0].id == 256;
}

/* Stores the tokenizer in *out on success and frees it on error. */
static enum weft_status finish(struct loader *l, enum weft_status st,
                               struct weft_tokenizer **out)
{
    wf_text_release(&l->scratch);
    if (st == WEFT_OK)
        *out = l->t;
    else
        weft_tokenizer_free(l->t);
    return st;
}

enum weft_status wf_tokenizer_parse(const char *json, size_t len, const char *name,
                                    struct weft_tokenizer **out, struct weft_error *err)
{
    struct loader l = {.name = name, .err = err};
    json_t *root = NULL;
    wf_char_to_byte(l.byte_of);
    WEFT_TRY(parse_json(&l, json, len, &root));
    enum weft_status st = read_tokenizer(&l, root);
    json_decref(root);
    if (st == WEFT_OK) {
        l.t->is_bytes = is_byte_tokenizer(l.t);
        l.t->source = malloc(len + 1);
        l.t->source_len = len;
        if (l.t->source == NULL)
            st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu bytes of %.160s", len, name);
        else
            memcpy(l.t->source, json, len);
    }
    return finish(&l, st, out);
}

/* -- vocab.json and merges.txt ------------------------------------------------------------- */

/* Reads the lines of merges.txt.  Only the first line is treated as a version line if it starts
 * with '#', because merges may also start with '#'. */
static enum weft_status read_merge_lines(struct loader *l, const char *text, size_t len)
{
    size_t n_lines = 1, n = 0;
    for (size_t i = 0; i < len; i++)
        n_lines += text[i] == '\n';
    WEFT_TRY(wf_tokenizer_reserve_merges(l->t, n_lines, l->err));
    for (size_t at = 0; at < len;) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t end = newline == NULL ? len : (size_t)(newline - text), next = end + 1;
        if (end > at && text[end - 1] == '\r')
            end--;
        bool version = at == 0 && end >= 8 && memcmp(text, "#version", 8) == 0;
        if (!version && end > at)
            WEFT_TRY(add_merge_line(l, n++, text + at, end - at));
        at = next;
    }
    return WEFT_OK;
}

enum weft_status wf_tokenizer_parse_gpt2(const char *vocab, size_t vocab_len, const char *name,
                                         const char *merges, size_t merges_len,
                                         const char *merges_name, struct weft_tokenizer **out,
                                         struct weft_error *err)
{
    struct loader l = {.name = name, .err = err};
    json_t *root = NULL;
    wf_char_to_byte(l.byte_of);
    WEFT_TRY(parse_json(&l, vocab, vocab_len, &root));
    enum weft_status st = read_vocab(&l, root, NULL);

    const json_t *end = json_object_get(root, eot_name);
    if (st == WEFT_OK && end != NULL)
        st = add_special(&l, eot_name, (int32_t)json_integer_value(end));
    l.name = merges_name;
    if (st == WEFT_OK)
        st = read_merge_lines(&l, merges, merges_len);
    if (st == WEFT_OK)
        wf_tokenizer_find_eot(l.t);
    json_decref(root);
    return finish(&l, st, out);
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
    WEFT_TRY(read_file(path, &text, &len, err));
    enum weft_status st = wf_tokenizer_parse(text, len, path, out, err);
    free(text);
    return st;
}

static enum weft_status open_gpt2(const char *vocab_path, const char *merges_path,
                                  struct weft_tokenizer **out, struct weft_error *err)
{
    char *vocab = NULL, *merges = NULL;
    size_t vocab_len = 0, merges_len = 0;
    enum weft_status st = read_file(vocab_path, &vocab, &vocab_len, err);
    if (st == WEFT_OK)
        st = read_file(merges_path, &merges, &merges_len, err);
    if (st == WEFT_OK)
        st = wf_tokenizer_parse_gpt2(vocab, vocab_len, vocab_path, merges, merges_len,
                                     merges_path, out, err);
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
