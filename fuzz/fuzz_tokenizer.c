/* Parses a tokenizer.json, followed by a zero byte and a text.  Checks that an error has one
 * line, that tokens decode to the text, at once or in parts, and that an accepted tokenizer is
 * unchanged after writing and reading.  The mutator edits JSON values or bytes of the text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "mutate.h"
#include "require.h"
#include "training/data/tokenizer_priv.h"

static void encode(const struct weft_tokenizer *t, const char *text, size_t len,
                   struct weft_tokens *out)
{
    require(weft_tokenizer_encode(t, text, len, out, NULL) == WEFT_OK);
}

static void require_same(const struct weft_tokens *a, const struct weft_tokens *b)
{
    require(a->len == b->len);
    require(a->len == 0 || memcmp(a->at, b->at, a->len * sizeof *a->at) == 0);
}

static void round_trip(const struct weft_tokenizer *t, const char *text, size_t len)
{
    struct weft_tokens whole = {0}, parts = {0};
    struct wf_text back = {0};
    encode(t, text, len, &whole);
    for (size_t i = 0; i < whole.len; i++) {
        size_t n;
        require(whole.at[i] >= 0 && (uint32_t)whole.at[i] < weft_tokenizer_n_vocab(t));
        const char *bytes = weft_tokenizer_token(t, whole.at[i], &n);
        require(bytes != NULL);
        wf_text_add(&back, bytes, n);
    }
    require(back.len == len && (len == 0 || memcmp(back.at, text, len) == 0));

    size_t cut = wf_tokenizer_boundary(t, text, len / 2);
    require(cut <= len / 2);
    encode(t, text, cut, &parts);
    encode(t, text + cut, len - cut, &parts);
    require_same(&whole, &parts);

    weft_tokens_release(&whole);
    weft_tokens_release(&parts);
    wf_text_release(&back);
}

/* Checks that a cache of words gives the same tokens, for new words and for cached ones. */
static void check_encoder(const struct weft_tokenizer *t, const char *text, size_t len)
{
    struct weft_tokens whole = {0}, kept = {0};
    struct wf_encoder *e = NULL;
    encode(t, text, len, &whole);
    require(wf_encoder_new(t, &e, NULL) == WEFT_OK);
    require(wf_encoder_encode(e, text, len, &kept, NULL) == WEFT_OK);
    require_same(&whole, &kept);
    kept.len = 0;
    require(wf_encoder_encode(e, text, len, &kept, NULL) == WEFT_OK);
    require_same(&whole, &kept);
    wf_encoder_free(e);
    weft_tokens_release(&whole);
    weft_tokens_release(&kept);
}

static void write_again(const struct weft_tokenizer *t, const char *text, size_t len)
{
    struct wf_text json = {0};
    struct weft_tokenizer *again = NULL;
    struct weft_tokens a = {0}, b = {0};
    require(wf_tokenizer_print(t, &json, NULL) == WEFT_OK);
    require(wf_tokenizer_parse(json.at, json.len, "again", &again, NULL) == WEFT_OK);
    require(weft_tokenizer_eot(t) == weft_tokenizer_eot(again));
    encode(t, text, len, &a);
    encode(again, text, len, &b);
    require_same(&a, &b);
    weft_tokens_release(&a);
    weft_tokens_release(&b);
    weft_tokenizer_free(again);
    wf_text_release(&json);
}

/* Makes a fixed vocabulary to encode plain text, since a fuzzer does not find 256
 * tokens for bytes. */
static struct weft_tokenizer *usual(void)
{
    static const char left[] = "eaitoh ", right[] = "rnnhnet";
    struct weft_tokenizer *t = NULL;
    require(wf_tokenizer_new(256 + 7, &t, NULL) == WEFT_OK);
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        require(wf_tokenizer_set(t, b, &byte, 1, NULL) == WEFT_OK);
    }
    for (int i = 0; i < 7; i++)
        require(wf_tokenizer_set(t, 256 + i, (char[]){left[i], right[i]}, 2, NULL) == WEFT_OK);
    wf_tokenizer_index(t);
    require(wf_tokenizer_reserve_merges(t, 7, NULL) == WEFT_OK);
    for (int i = 0; i < 7; i++)
        require(wf_tokenizer_add_merge(
            t, (struct wf_token_pair){(unsigned char)left[i], (unsigned char)right[i]},
            256 + i));
    require(wf_tokenizer_finish(t, NULL) == WEFT_OK);
    return t;
}

/* Returns true if decoding returns every text, and weft can write the tokenizer. */
static bool keeps_text(const struct weft_tokenizer *t)
{
    const struct wf_pipeline *p = &t->pipe;
    for (size_t i = 0; i < t->n_added; i++)
        if (!t->added[i].special)
            return false;
    return wf_steps_is_pattern(&p->steps) && !p->by_chars && p->form == WF_UNICODE_AS_IS &&
           p->prefix == WF_PREFIX_NEVER && !t->has_gaps;
}

/* Checks that a text can be encoded in parts, with special tokens. */
static void check_parts(const struct weft_tokenizer *t, const char *text, size_t len)
{
    struct weft_tokens whole = {0}, parts = {0};
    struct wf_encoder *e = NULL;
    size_t cut = wf_tokenizer_boundary(t, text, len / 2);
    require(cut <= len / 2);
    require(wf_encoder_new(t, &e, NULL) == WEFT_OK);
    require(wf_encoder_encode_special(e, text, len, &whole, NULL) == WEFT_OK);
    if (cut > 0) {
        require(wf_encoder_encode_part(e, text, cut, WF_ENCODE_SPECIAL, &parts, NULL) ==
                WEFT_OK);
        require(wf_encoder_encode_part(e, text + cut, len - cut,
                                       WF_ENCODE_SPECIAL | WF_ENCODE_CONTINUES, &parts,
                                       NULL) == WEFT_OK);
        require_same(&whole, &parts);
    }
    wf_encoder_free(e);
    weft_tokens_release(&whole);
    weft_tokens_release(&parts);
}

static void parse(const char *json, size_t json_len, const char *text, size_t len)
{
    struct weft_tokenizer *t = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_tokenizer_parse(json, json_len, "fuzz", &t, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_DATA && err.status == st && err.msg[0] != '\0');
        for (const char *c = err.msg; *c != '\0'; c++)
            require(*c >= ' ' && *c <= '~');
        return;
    }
    if (keeps_text(t)) {
        round_trip(t, text, len);
        write_again(t, text, len);
    } else {
        check_parts(t, text, len);
    }
    weft_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *all = (const char *)data;
    const char *nul = size == 0 ? NULL : memchr(all, '\0', size);
    size_t json_len = nul == NULL ? size : (size_t)(nul - all);
    const char *text = nul == NULL ? all : nul + 1;
    size_t len = nul == NULL ? size : size - json_len - 1;
    parse(all, json_len, text, len);

    /* The input selects one of the splits, and whether to check the cache, which is slow: each
     * word touches another page. */
    static struct weft_tokenizer *t;
    t = t != NULL ? t : usual();
    uint64_t selection = wf_hash(0, data, size);
    t->pipe.steps.at[0].pattern =
        (enum wf_split)(WF_SPLIT_GPT2 + selection % (WF_SPLIT_QWEN2 - WF_SPLIT_GPT2 + 1));
    round_trip(t, text, len);
    if (selection / (WF_SPLIT_QWEN2 + 1) % 8 == 0)
        check_encoder(t, text, len);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
    size_t json_len = nul == NULL ? size : (size_t)(nul - data), rest = size - json_len;
    if (size >= max_size) /* there may be no room for a part */
        return LLVMFuzzerMutate(data, size, max_size);
    if (seed % 2 == 0 && nul != NULL)
        return json_len + 1 +
               LLVMFuzzerMutate(data + json_len + 1, rest - 1, max_size - json_len - 1);

    /* The text is moved to the end of the buffer, and back behind the new JSON. */
    uint8_t *end = data + max_size - rest;
    memmove(end, data + json_len, rest);
    json_len = mutate_json_text(data, json_len, max_size - rest, seed / 2);
    memmove(data + json_len, end, rest);
    return json_len + rest;
}
