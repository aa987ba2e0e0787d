/* Writes tokenizer.json and defines the characters that represent bytes in it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "config/json_input.h"
#include "training/data/tokenizer_priv.h"

/* -- bytes as characters ------------------------------------------------------------------- */

/* Returns true if a byte is represented by the character with the same number. */
static bool is_own_char(unsigned c)
{
    return (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

uint32_t wf_byte_to_char(unsigned char byte)
{
    uint32_t next = 256;
    if (is_own_char(byte))
        return byte;
    for (unsigned b = 0; b < byte; b++)
        next += !is_own_char(b);
    return next;
}

void wf_char_to_byte(int16_t out[WF_BYTE_CHARS])
{
    for (size_t i = 0; i < WF_BYTE_CHARS; i++)
        out[i] = -1;
    for (int b = 0; b < 256; b++)
        out[wf_byte_to_char((unsigned char)b)] = (int16_t)b;
}

/* -- JSON ---------------------------------------------------------------------------------- */

/* The characters that represent the 256 bytes, in UTF-8 and escaped for JSON. */
struct alphabet {
    char of[256][3];
};

static void fill_alphabet(struct alphabet *a)
{
    for (int b = 0; b < 256; b++) {
        uint32_t c = wf_byte_to_char((unsigned char)b);
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

static void put_token(struct wf_text *out, const struct alphabet *a,
                      const struct weft_tokenizer *t, int32_t id)
{
    const char *bytes = t->pool.at + t->tokens[id].begin;
    for (uint32_t i = 0; i < t->tokens[id].len; i++) {
        const char *c = a->of[(unsigned char)bytes[i]];
        wf_text_add(out, c, c[1] == '\0' ? 1 : 2);
    }
}

/* Appends the name of an added token.  The name is plain text, not byte characters. */
static void put_name(struct wf_text *out, const char *name)
{
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\')
            wf_text_addf(out, "\\%c", c);
        else if (c < ' ')
            wf_text_addf(out, "\\u%04x", c);
        else
            wf_text_addc(out, *name);
    }
}

/* Returns true if a token is written to the vocabulary.  These are all ordinary tokens, and the
 * added tokens whose name consists of characters that represent themselves as bytes. */
static bool is_in_vocab(const struct weft_tokenizer *t, int32_t id)
{
    if (t->tokens[id].len == 0)
        return false;
    for (size_t i = 0; i < t->n_added; i++)
        for (const char *c = t->added[i].name; t->added[i].id == id && *c != '\0'; c++)
            if (*c < '!' || *c > '~')
                return false;
    return true;
}

static void put_pattern(struct wf_text *out, enum wf_split split)
{
    const char *byte_level = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                             "\"trim_offsets\": true, \"use_regex\": ";
    wf_text_adds(out, "  \"pre_tokenizer\": ");
    if (split == WF_SPLIT_GPT2) {
        wf_text_addf(out, "%strue},\n", byte_level);
        return;
    }
    wf_text_adds(out, "{\"type\": \"Sequence\", \"pretokenizers\": [\n"
                      "    {\"type\": \"Split\", \"pattern\": {\"Regex\": \"");
    put_name(out, wf_split_pattern(split));
    wf_text_addf(out,
                 "\"}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                 "    %sfalse}]},\n",
                 byte_level);
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void put_added(struct wf_text *out, const struct weft_tokenizer *t)
{
    wf_text_adds(out, "  \"added_tokens\": [");
    for (size_t i = 0; i < t->n_added; i++) {
        const struct wf_added *a = &t->added[i];
        wf_text_addf(out, "%s\n    {\"id\": %d, \"content\": \"", i == 0 ? "" : ",",
                     (int)a->id);
        put_name(out, a->name);
        wf_text_addf(out,
                     "\", \"single_word\": %s, \"lstrip\": %s, \"rstrip\": %s, "
                     "\"normalized\": %s, \"special\": %s}",
                     truth(a->single_word), truth(a->lstrip), truth(a->rstrip),
                     truth(a->normalized), truth(a->special));
    }
    wf_text_adds(out, "\n  ],\n");
}

static void put_model(struct wf_text *out, const struct weft_tokenizer *t)
{
    struct alphabet a;
    const char *comma = "";
    fill_alphabet(&a);
    wf_text_addf(out,
                 "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                 "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                 "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                 "    \"byte_fallback\": false,\n    \"ignore_merges\": %s,\n"
                 "    \"vocab\": {",
                 truth(t->pipe.ignore_merges));
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        if (!is_in_vocab(t, (int32_t)id))
            continue;
        wf_text_addf(out, "%s\n      \"", comma);
        put_token(out, &a, t, (int32_t)id);
        wf_text_addf(out, "\": %u", id);
        comma = ",";
    }

    wf_text_adds(out, "\n    },\n    \"merges\": [");
    for (uint32_t i = 0; i < t->n_pairs; i++) {
        wf_text_adds(out, i == 0 ? "\n      \"" : ",\n      \"");
        put_token(out, &a, t, t->pairs[i].left);
        wf_text_addc(out, ' ');
        put_token(out, &a, t, t->pairs[i].right);
        wf_text_addc(out, '"');
    }
    wf_text_adds(out, "\n    ]\n  }\n}\n");
}

enum weft_status wf_tokenizer_print(const struct weft_tokenizer *t, struct wf_text *out,
                                    struct weft_error *err)
{
    wf_text_adds(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                      "  \"padding\": null,\n");
    put_added(out, t);
    wf_text_adds(out, "  \"normalizer\": null,\n");
    put_pattern(out, t->pipe.steps.at[0].pattern);
    wf_text_adds(out, "  \"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                      "true, \"trim_offsets\": false, \"use_regex\": true},\n"
                      "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                      "\"trim_offsets\": true, \"use_regex\": true},\n");
    put_model(out, t);
    return out->failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to write a tokenizer") : WEFT_OK;
}

/* -- the file ------------------------------------------------------------------------------ */

enum weft_status wf_tokenizer_print_file(const struct weft_tokenizer *t, struct wf_text *out,
                                         struct weft_error *err)
{
    if (t->source == NULL)
        return wf_tokenizer_print(t, out, err);
    wf_text_add(out, t->source, t->source_len);
    return out->failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to write a tokenizer") : WEFT_OK;
}

enum weft_status wf_tokenizer_save_as(const struct weft_tokenizer *t, const char *path,
                                      struct weft_error *err)
{
    struct wf_text text = {0};
    enum weft_status st = wf_tokenizer_print_file(t, &text, err);
    if (st == WEFT_OK)
        st = wf_file_write(path, text.at, text.len, err);
    wf_text_release(&text);
    return st;
}

/* Returns the content of tokenizer_config.json as JSON: what was read, with the end of a
 * document.  Returns NULL if there is no memory; the text that was read is valid. */
static json_t *config_of(const struct weft_tokenizer *t)
{
    size_t len = 0;
    const char *bytes = weft_tokenizer_token(t, t->eot, &len);
    json_error_t why;
    json_t *root = NULL;
    if (t->config == NULL)
        root = json_pack("{sssb}", "tokenizer_class", "PreTrainedTokenizerFast",
                         "clean_up_tokenization_spaces", 0);
    else if (wf_json_load(t->config, t->config_len, 0, "tokenizer_config.json", &root, &why,
                          NULL) != WEFT_OK)
        return NULL;

    json_t *name = json_stringn(bytes, len);
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == t->eot) {
            json_decref(name);
            name = json_string(t->added[i].name);
            break;
        }
    if (root != NULL && json_object_set_new(root, "eos_token", name) == 0)
        return root;
    json_decref(root);
    return NULL;
}

/* Writes tokenizer_config.json, without which the end of a document would be guessed. */
static enum weft_status save_config(const struct weft_tokenizer *t, const char *path,
                                    struct weft_error *err)
{
    json_t *root = config_of(t);
    char *text = root == NULL ? NULL : wf_json_dump(root, JSON_INDENT(2));
    enum weft_status st = text == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to write %.200s", path)
                              : wf_file_write(path, text, strlen(text), err);
    free(text);
    json_decref(root);
    return st;
}

enum weft_status weft_tokenizer_save(const struct weft_tokenizer *t, const char *dir,
                                     struct weft_error *err)
{
    char *path = wf_path_join(dir, "tokenizer.json");
    char *config = wf_path_join(dir, "tokenizer_config.json");
    enum weft_status st =
        path == NULL || config == NULL
            ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of tokenizer.json")
            : wf_tokenizer_save_as(t, path, err);
    if (st == WEFT_OK && t->eot != WEFT_NO_TOKEN)
        st = save_config(t, config, err);
    free(path);
    free(config);
    return st;
}
