/* Reads vocabularies, added tokens and merges.  The files are untrusted input. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "training/data/tokenizer_load.h"

enum {
    MAX_TOKEN_BYTES = 1 << 16,
    MAX_ADDED = 1 << 13, /* maximum number of added tokens, which are searched linearly */
    /* maximum number of ids per token: the tables have one entry per id, so unused ids of a
     * short file could otherwise take more time and memory than its tokens */
    MAX_IDS_PER_TOKEN = 16,
};

/* -- tokens -------------------------------------------------------------------------------- */

/* Converts characters that represent bytes to these bytes and stores them in l->scratch.
 * Returns false if a character does not represent a byte. */
static bool to_bytes(struct wf_loader *l, const char *chars, size_t len)
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

static bool has_blanks(const struct wf_loader *l)
{
    return l->pipe.replaces || l->pipe.metaspace;
}

/* Stores the bytes of a token, as texts contain them, in l->scratch.  Returns false if no text
 * contains them. */
static bool to_text(struct wf_loader *l, const char *chars, size_t len)
{
    if (!l->pipe.by_chars)
        return to_bytes(l, chars, len);
    l->scratch.len = 0;
    if (has_blanks(l))
        wf_tokenizer_add_blanks(&l->scratch, chars, len);
    else
        wf_text_add(&l->scratch, chars, len);
    return !has_blanks(l) || memchr(chars, ' ', len) == NULL;
}

/* Returns the byte that a token such as <0x0A> stands for, or -1. */
static int fallback_byte(const char *text, size_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *high = strchr(digits, text[3]), *low = strchr(digits, text[4]);
    return high == NULL || low == NULL ? -1 : (int)(16 * (high - digits) + (low - digits));
}

static enum weft_status get_id(struct wf_loader *l, const json_t *value, const char *token,
                               int32_t *out)
{
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= WF_TOKENIZER_MAX_VOCAB)
        return WF_LOAD_FAIL(l, "token '%s' has no id from 0 to %d", wf_printable(token).at,
                            WF_TOKENIZER_MAX_VOCAB - 1);
    *out = (int32_t)id;
    return WEFT_OK;
}

/* Returns true if the list of added tokens has this id and text.  count_vocab() has already
 * checked the ids and texts of added tokens. */
static bool is_added(const json_t *added, int32_t id, const char *text)
{
    const json_t *row;
    size_t i;
    json_array_foreach(added, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "content"));
        if (json_integer_value(json_object_get(row, "id")) == id && strcmp(name, text) == 0)
            return true;
    }
    return false;
}

static enum weft_status set_token(struct wf_loader *l, int32_t id, const char *text,
                                  const char *bytes, size_t len)
{
    if (len == 0 || len > MAX_TOKEN_BYTES)
        return WF_LOAD_FAIL(l, "token %d has %zu bytes (expected 1 to %d)", id, len,
                            MAX_TOKEN_BYTES);
    if (l->t->tokens[id].len != 0)
        return WF_LOAD_FAIL(l, "id %d is used twice, the second time for '%s'", id,
                            wf_printable(text).at);
    return wf_tokenizer_set(l->t, id, bytes, len, l->err);
}

static enum weft_status add_vocab_token(struct wf_loader *l, const json_t *added,
                                        const char *text, int32_t id)
{
    size_t len = strlen(text);
    int byte = l->pipe.by_chars && l->pipe.byte_fallback ? fallback_byte(text, len) : -1;
    if (byte >= 0) {
        char bytes[1] = {(char)byte};
        l->t->byte_ids[byte] = id;
        return set_token(l, id, text, bytes, 1);
    }

    bool found = to_text(l, text, len);
    if (l->scratch.failed)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the vocabulary");
    if (!found && !l->pipe.by_chars && !is_added(added, id, text))
        return WF_LOAD_FAIL(l,
                            "token '%s' contains a character that represents no byte, but "
                            "pre_tokenizer is ByteLevel",
                            wf_printable(text).at);
    if (!found) /* the vocabulary lists the token, but only its name in a text leads to it */
        return set_token(l, id, text, text, len);
    WEFT_TRY(set_token(l, id, text, l->scratch.at, l->scratch.len));
    wf_tokenizer_insert(l->t, id);
    return WEFT_OK;
}

/* Computes the size of the vocabulary, which is the largest id plus one. */
static enum weft_status count_vocab(struct wf_loader *l, json_t *vocab, const json_t *added,
                                    uint32_t *out)
{
    const char *text;
    json_t *value;
    const json_t *row;
    size_t i;
    int32_t id, max_id = -1;

    if (json_object_size(vocab) == 0)
        return WF_LOAD_FAIL(l, "has no vocabulary");
    json_object_foreach(vocab, text, value)
    {
        WEFT_TRY(get_id(l, value, text, &id));
        max_id = id > max_id ? id : max_id;
    }

    json_array_foreach(added, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "content"));
        if (name == NULL || name[0] == '\0')
            return WF_LOAD_FAIL(l, "added token %zu has no content", i);
        WEFT_TRY(get_id(l, json_object_get(row, "id"), name, &id));
        max_id = id > max_id ? id : max_id;
    }

    size_t n_tokens = json_object_size(vocab) + json_array_size(added);
    if ((size_t)max_id / MAX_IDS_PER_TOKEN >= n_tokens)
        return WF_LOAD_FAIL(
            l, "has the id %d, but only %zu tokens; expected ids without large gaps", max_id,
            n_tokens);
    *out = (uint32_t)max_id + 1;
    return WEFT_OK;
}

/* -- added tokens -------------------------------------------------------------------------- */

static enum weft_status read_flags(struct wf_loader *l, const json_t *row, struct wf_added *out)
{
    WEFT_TRY(wf_loader_bool(l, row, "special", false, &out->special));
    WEFT_TRY(wf_loader_bool(l, row, "lstrip", false, &out->lstrip));
    WEFT_TRY(wf_loader_bool(l, row, "rstrip", false, &out->rstrip));
    WEFT_TRY(wf_loader_bool(l, row, "single_word", false, &out->single_word));
    return wf_loader_bool(l, row, "normalized", !out->special, &out->normalized);
}

/* Adds an added token.  The vocabulary may already contain its text with this id. */
static enum weft_status add_added(struct wf_loader *l, const json_t *vocab, const json_t *row)
{
    struct wf_added token = {.name = NULL};
    const char *name = json_string_value(json_object_get(row, "content"));
    const json_t *listed = json_object_get(vocab, name);
    WEFT_TRY(get_id(l, json_object_get(row, "id"), name, &token.id));
    WEFT_TRY(read_flags(l, row, &token));
    if (wf_tokenizer_find_added(l->t, name) != WEFT_NO_TOKEN)
        return WF_LOAD_FAIL(l, "token '%s' is added twice", wf_printable(name).at);
    if (listed != NULL && json_integer_value(listed) != token.id)
        return WF_LOAD_FAIL(l, "token '%s' has the id %d in added_tokens and %d in vocab",
                            wf_printable(name).at, token.id, (int)json_integer_value(listed));
    if (listed == NULL)
        WEFT_TRY(set_token(l, token.id, name, name, strlen(name)));

    struct wf_added copy = token;
    copy.name = strdup(name);
    if (copy.name == NULL)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the names of added tokens");
    enum weft_status st = wf_tokenizer_add_added(l->t, copy, l->err);
    free(copy.name);
    return st;
}

/* -- the vocabulary ------------------------------------------------------------------------ */

/* Finds the tokens of bytes, and what becomes of bytes without a token. */
static enum weft_status find_bytes(struct wf_loader *l, const char *unknown)
{
    struct weft_tokenizer *t = l->t;
    if (t->pipe.by_chars) {
        for (int b = 0; b < 256 && t->pipe.byte_fallback; b++)
            if (t->byte_ids[b] == WEFT_NO_TOKEN)
                return WF_LOAD_FAIL(l, "model.byte_fallback: the vocabulary has no '<0x%02X>'",
                                    (unsigned)b);
    }
    wf_tokenizer_index_bytes(t);
    if (t->pipe.by_chars ? t->pipe.byte_fallback : !t->has_gaps)
        return WEFT_OK;

    if (!t->pipe.by_chars && t->pipe.byte_fallback)
        return WF_LOAD_FAIL(l, "model.byte_fallback is not supported with ByteLevel");
    if (unknown == NULL)
        return WEFT_OK;
    t->unknown = to_text(l, unknown, strlen(unknown))
                     ? wf_tokenizer_lookup(t, l->scratch.at, l->scratch.len)
                     : WEFT_NO_TOKEN;
    if (l->scratch.failed)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for the vocabulary");
    if (t->unknown == WEFT_NO_TOKEN)
        return WF_LOAD_FAIL(l, "model.unk_token '%s' is not in the vocabulary",
                            wf_printable(unknown).at);
    return WEFT_OK;
}

enum weft_status wf_loader_read_vocab(struct wf_loader *l, json_t *vocab, const json_t *added,
                                      const char *unknown)
{
    const char *text;
    json_t *value;
    const json_t *row;
    size_t i;
    int32_t id;
    uint32_t n = 0;
    if (json_array_size(added) > MAX_ADDED)
        return WF_LOAD_FAIL(l, "has more than %d added tokens", MAX_ADDED);
    WEFT_TRY(count_vocab(l, vocab, added, &n));
    WEFT_TRY(wf_tokenizer_new(n, &l->t, l->err));
    l->t->pipe = l->pipe;
    l->pipe.steps = (struct wf_steps){.n = 0};
    for (int b = 0; b < 256; b++)
        l->t->byte_ids[b] = WEFT_NO_TOKEN;

    json_object_foreach(vocab, text, value)
    {
        WEFT_TRY(get_id(l, value, text, &id));
        WEFT_TRY(add_vocab_token(l, added, text, id));
    }
    WEFT_TRY(find_bytes(l, unknown));
    json_array_foreach(added, i, row)
    {
        WEFT_TRY(add_added(l, vocab, row));
    }
    return WEFT_OK;
}

/* -- merges -------------------------------------------------------------------------------- */

/* Appends the text of one side of a merge to `all` and returns its token. */
static int32_t find_side(struct wf_loader *l, const char *side, size_t len, char *all,
                         size_t *n)
{
    if (!to_text(l, side, len) || l->scratch.failed || l->scratch.len == 0 ||
        l->scratch.len > MAX_TOKEN_BYTES)
        return WEFT_NO_TOKEN;
    memcpy(all + *n, l->scratch.at, l->scratch.len);
    *n += l->scratch.len;
    return wf_tokenizer_lookup(l->t, l->scratch.at, l->scratch.len);
}

/* Adds a merge.  The left token, the right token and the result must be in the vocabulary. */
static enum weft_status add_merge(struct wf_loader *l, size_t i, const char *left,
                                  size_t n_left, const char *right, size_t n_right)
{
    char all[2 * MAX_TOKEN_BYTES];
    size_t n = 0;
    struct wf_token_pair pair = {WEFT_NO_TOKEN, WEFT_NO_TOKEN};
    /* No text leads to tokens with blanks that are not written as U+2581. */
    if (l->pipe.by_chars && has_blanks(l) &&
        (memchr(left, ' ', n_left) != NULL || memchr(right, ' ', n_right) != NULL))
        return WEFT_OK;

    pair.left = find_side(l, left, n_left, all, &n);
    if (pair.left != WEFT_NO_TOKEN)
        pair.right = find_side(l, right, n_right, all, &n);
    if (l->scratch.failed)
        return WEFT_FAIL(l->err, WEFT_NOMEM, "no memory for merge %zu", i);
    if (pair.left == WEFT_NO_TOKEN || pair.right == WEFT_NO_TOKEN)
        return WF_LOAD_FAIL(l, "merge %zu names a token that is not in the vocabulary", i);
    int32_t result = wf_tokenizer_lookup(l->t, all, n);
    if (result == WEFT_NO_TOKEN && l->pipe.byte_fallback && fallback_byte(all, n) >= 0)
        return WF_LOAD_FAIL(l,
                            "merge %zu makes a token that stands for a byte, which is not "
                            "supported",
                            i);
    if (result == WEFT_NO_TOKEN)
        return WF_LOAD_FAIL(l, "the result of merge %zu is not in the vocabulary", i);
    if (!wf_tokenizer_add_merge(l->t, pair, result))
        return WF_LOAD_FAIL(l, "merge %zu is a duplicate", i);
    return WEFT_OK;
}

/* Adds a merge of the form "a b".  The space is a unique separator, because no byte is
 * represented by a space. */
static enum weft_status add_merge_line(struct wf_loader *l, size_t i, const char *line,
                                       size_t len)
{
    const char *space = memchr(line, ' ', len);
    if (space == NULL)
        return WF_LOAD_FAIL(l, "merge %zu is not a pair of tokens", i);
    size_t n = (size_t)(space - line);
    if (memchr(space + 1, ' ', len - n - 1) != NULL)
        return WF_LOAD_FAIL(l, "merge %zu names a token that is not in the vocabulary", i);
    return add_merge(l, i, line, n, space + 1, len - n - 1);
}

enum weft_status wf_loader_read_merges(struct wf_loader *l, const json_t *merges)
{
    const json_t *row;
    size_t i;
    if (!json_is_array(merges))
        return WF_LOAD_FAIL(l, "model.merges is not a list");
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
            return WF_LOAD_FAIL(l, "merge %zu is not a pair of tokens", i);
    }
    return WEFT_OK;
}

enum weft_status wf_loader_read_merge_lines(struct wf_loader *l, const char *text, size_t len)
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
        /* Only the first line is a version line, because merges may also start with '#'. */
        bool version = at == 0 && end >= 8 && memcmp(text, "#version", 8) == 0;
        if (!version && end > at)
            WEFT_TRY(add_merge_line(l, n++, text + at, end - at));
        at = next;
    }
    return WEFT_OK;
}
