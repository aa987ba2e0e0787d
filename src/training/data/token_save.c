/* Writing tokenizer.json, and the characters that stand for bytes in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "training/data/token_priv.h"

/* -- bytes as characters --------------------------------------------------------------------- */

static bool is_own_char(unsigned c)
{
    return (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

uint32_t weft_byte_to_char(unsigned char byte)
{
    uint32_t next = 256;
    if (is_own_char(byte))
        return byte;
    for (unsigned b = 0; b < byte; b++)
        next += !is_own_char(b);
    return next;
}

void weft_char_bytes(int16_t out[WEFT_BYTE_CHARS])
{
    for (size_t i = 0; i < WEFT_BYTE_CHARS; i++)
        out[i] = -1;
    for (int b = 0; b < 256; b++)
        out[weft_byte_to_char((unsigned char)b)] = (int16_t)b;
}

/* -- JSON ----------------------------------------------------------------------------------- */

/* Characters of JSON strings for all bytes, as UTF-8. */
struct alphabet {
    char of[256][3];
};

static void fill_alphabet(struct alphabet *a)
{
    for (int b = 0; b < 256; b++) {
        uint32_t c = weft_byte_to_char((unsigned char)b);
        char *to = a->of[b];
        memset(to, 0, 3);
        if (c == '"' || c == '\\') {
            to[0] = '\\';
            to[1] = (char)c;
        } else if (c < 0x80) {
            to[0] = (char)c;
        } else {
            to[0] = (char)(0xC0 | c >> 6);
            to[1] = (char)(0x80 | (c & 0x3F));
        }
    }
}

static void put_token(struct weft_text *out, const struct alphabet *a,
                      const struct weft_tokenizer *t, int32_t id)
{
    const char *bytes = t->pool.at + t->tokens[id].begin;
    for (uint32_t i = 0; i < t->tokens[id].len; i++) {
        const char *c = a->of[(unsigned char)bytes[i]];
        weft_text_add(out, c, c[1] == '\0' ? 1 : 2);
    }
}

/* The name of a special token, which is text as it is. */
static void put_name(struct weft_text *out, const char *name)
{
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\')
            weft_text_addf(out, "\\%c", c);
        else if (c < ' ')
            weft_text_addf(out, "\\u%04x", c);
        else
            weft_text_addc(out, *name);
    }
}

/* A special token stands in the vocabulary, too, where its name reads the same in both places. */
static bool is_in_vocab(const struct weft_tokenizer *t, int32_t id)
{
    if (t->tokens[id].len == 0)
        return false;
    for (size_t i = 0; i < t->n_special; i++)
        for (const char *c = t->special[i].name; t->special[i].id == id && *c != '\0'; c++)
            if (*c < '!' || *c > '~')
                return false;
    return true;
}

static void put_pattern(struct weft_text *out, enum weft_split split)
{
    const char *byte_level = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                             "\"trim_offsets\": true, \"use_regex\": ";
    weft_text_adds(out, "  \"pre_tokenizer\": ");
    if (split == WEFT_SPLIT_GPT2) {
        weft_text_addf(out, "%strue},\n", byte_level);
        return;
    }
    weft_text_adds(out, "{\"type\": \"Sequence\", \"pretokenizers\": [\n"
                        "    {\"type\": \"Split\", \"pattern\": {\"Regex\": \"");
    put_name(out, weft_split_pattern(split));
    weft_text_addf(out,
                   "\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                   "    %sfalse}]},\n",
                   byte_level);
}

static void put_added(struct weft_text *out, const struct weft_tokenizer *t)
{
    weft_text_adds(out, "  \"added_tokens\": [");
    for (size_t i = 0; i < t->n_special; i++) {
        weft_text_addf(out, "%s\n    {\"id\": %d, \"content\": \"", i == 0 ? "" : ",",
                       (int)t->special[i].id);
        put_name(out, t->special[i].name);
        weft_text_adds(out, "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                            "\"normalized\": false, \"special\": true}");
    }
    weft_text_adds(out, "\n  ],\n");
}

static void put_model(struct weft_text *out, const struct weft_tokenizer *t)
{
    struct alphabet a;
    const char *comma = "";
    fill_alphabet(&a);
    weft_text_addf(out,
                   "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                   "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                   "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                   "    \"byte_fallback\": false,\n    \"ignore_merges\": %s,\n"
                   "    \"vocab\": {",
                   t->ignore_merges ? "true" : "false");
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (!is_in_vocab(t, (int32_t)id))
            continue;
        weft_text_addf(out, "%s\n      \"", comma);
        put_token(out, &a, t, (int32_t)id);
        weft_text_addf(out, "\": %u", id);
        comma = ",";
    }
    weft_text_adds(out, "\n    },\n    \"merges\": [");
    for (uint32_t i = 0; i < t->n_pairs; i++) {
        weft_text_adds(out, i == 0 ? "\n      \"" : ",\n      \"");
        put_token(out, &a, t, t->pairs[i].left);
        weft_text_addc(out, ' ');
        put_token(out, &a, t, t->pairs[i].right);
        weft_text_addc(out, '"');
    }
    weft_text_adds(out, "\n    ]\n  }\n}\n");
}

enum weft_status weft_token_print(const struct weft_tokenizer *t, struct weft_text *out,
                                  struct weft_error *err)
{
    weft_text_adds(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                        "  \"padding\": null,\n");
    put_added(out, t);
    weft_text_adds(out, "  \"normalizer\": null,\n");
    put_pattern(out, t->split);
    weft_text_adds(out, "  \"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                        "true, \"trim_offsets\": false, \"use_regex\": true},\n"
                        "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                        "\"trim_offsets\": true, \"use_regex\": true},\n");
    put_model(out, t);
    return out->failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to write a tokenizer") : WEFT_OK;
}

/* -- the file ------------------------------------------------------------------------------- */

static enum weft_status write_whole(const char *path, const char *bytes, size_t len,
                                    struct weft_error *err)
{
    char unfinished[4200];
    int n = snprintf(unfinished, sizeof unfinished, "%s.%ld.new", path, (long)getpid());
    FILE *out = n > 0 && (size_t)n < sizeof unfinished ? fopen(unfinished, "wb") : NULL;
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.240s: %s", path, strerror(errno));
    bool good = fwrite(bytes, 1, len, out) == len && fflush(out) == 0;
    good = fclose(out) == 0 && good && rename(unfinished, path) == 0;
    if (!good) {
        enum weft_status st =
            WEFT_FAIL(err, WEFT_IO, "cannot write %.240s: %s", path, strerror(errno));
        remove(unfinished);
        return st;
    }
    return WEFT_OK;
}

enum weft_status weft_tokenizer_save_as(const struct weft_tokenizer *t, const char *path,
                                        struct weft_error *err)
{
    if (t->is_bytes)
        return WEFT_OK;
    if (t->source != NULL)
        return write_whole(path, t->source, t->source_len, err);
    struct weft_text text = {0};
    enum weft_status st = weft_token_print(t, &text, err);
    if (st == WEFT_OK)
        st = write_whole(path, text.at, text.len, err);
    weft_text_release(&text);
    return st;
}

enum weft_status weft_tokenizer_save(const struct weft_tokenizer *t, const char *dir,
                                     struct weft_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (n < 0 || (size_t)n >= sizeof path)
        return WEFT_FAIL(err, WEFT_IO, "%.240s: the path is too long", dir);
    return weft_tokenizer_save_as(t, path, err);
}
