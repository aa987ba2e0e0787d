/* Computes the hash that identifies a tokenizer.  It covers what determines the tokens of a
 * text, and nothing else: neither the format of the tokenizer's files nor the end of documents,
 * which a corpus may choose. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "training/data/bpe.h"

static void put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* Adds one record: the tag, a number, the length of the bytes, the bytes. */
static void add_record(struct wf_sha256 *h, char tag, int32_t number, const void *bytes,
                       size_t len)
{
    unsigned char head[9] = {(unsigned char)tag};
    put_u32(head + 1, (uint32_t)number);
    put_u32(head + 5, (uint32_t)len);
    wf_sha256_add(h, head, sizeof head);
    wf_sha256_add(h, bytes, len);
}

/* Returns the added token that follows `last` in the order of ids and names, or NULL.  The
 * search is quadratic, but needs no memory; a tokenizer has at most some thousand. */
static const struct wf_added *next_added(const struct weft_tokenizer *t,
                                         const struct wf_added *last)
{
    const struct wf_added *next = NULL;
    for (size_t i = 0; i < t->n_added; i++) {
        const struct wf_added *s = &t->added[i];
        bool after = last == NULL || s->id > last->id ||
                     (s->id == last->id && strcmp(s->name, last->name) > 0);
        bool before = next == NULL || s->id < next->id ||
                      (s->id == next->id && strcmp(s->name, next->name) < 0);
        if (after && before)
            next = s;
    }
    return next;
}

static void add_merges(struct wf_sha256 *h, const struct weft_tokenizer *t)
{
    for (uint32_t i = 0; i < t->n_pairs; i++) {
        unsigned char both[8];
        put_u32(both, (uint32_t)t->pairs[i].right);
        put_u32(both + 4, (uint32_t)wf_bpe_slot(t, t->pairs[i])->result);
        add_record(h, 'm', t->pairs[i].left, both, sizeof both);
    }
}

/* Adds the flags of a token whose treatment differs from that of special tokens. */
static void add_flags(struct wf_sha256 *h, const struct weft_tokenizer *t,
                      const struct wf_added *a)
{
    const struct wf_pipeline *p = &t->pipe;
    bool normalizes = p->form != WF_UNICODE_AS_IS || p->prepends || p->replaces;
    unsigned char flags[5] = {a->special, a->lstrip, a->rstrip, a->single_word,
                              a->normalized && normalizes};
    static const unsigned char usual[5] = {1};
    if (memcmp(flags, usual, sizeof flags) != 0)
        add_record(h, 'a', a->id, flags, sizeof flags);
}

/* Adds the steps by which a text is split. */
static void add_steps(struct wf_sha256 *h, const struct wf_steps *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct wf_step *step = &s->at[i];
        const char *pattern = step->kind == WF_STEP_PATTERN ? wf_split_pattern(step->pattern)
                              : step->kind == WF_STEP_REGEX ? wf_regex_pattern(step->regex)
                                                            : "";
        int32_t number = step->kind == WF_STEP_PATTERN && s->n == 1
                             ? 0
                             : 1 + (int32_t)step->kind * 16 + (int32_t)step->behavior * 2 +
                                   (int32_t)step->byte_chars;
        add_record(h, 'p', number, pattern, strlen(pattern));
    }
}

/* Adds what else changes a text, unless nothing does. */
static void add_changes(struct wf_sha256 *h, const struct weft_tokenizer *t)
{
    const struct wf_pipeline *p = &t->pipe;
    unsigned char all[9] = {
        (unsigned char)p->form,      p->prepends, p->replaces,      p->metaspace,
        (unsigned char)p->prefix,    p->by_chars, p->byte_fallback, p->fuse_unknown,
        t->unknown != WEFT_NO_TOKEN,
    };
    static const unsigned char none[9] = {0};
    if (memcmp(all, none, sizeof all) != 0)
        add_record(h, 'n', t->unknown, all, sizeof all);
}

uint64_t wf_tokenizer_hash(const struct weft_tokenizer *t)
{
    struct wf_sha256 h;
    uint8_t sum[32];
    uint64_t hash = 0;

    wf_sha256_init(&h);
    for (uint32_t id = 0; id < t->n_vocab; id++)
        if (t->tokens[id].len != 0)
            add_record(&h, 't', (int32_t)id, t->pool.at + t->tokens[id].begin,
                       t->tokens[id].len);
    for (const struct wf_added *s = NULL; (s = next_added(t, s)) != NULL;)
        add_record(&h, 's', s->id, s->name, strlen(s->name));
    for (const struct wf_added *s = NULL; (s = next_added(t, s)) != NULL;)
        add_flags(&h, t, s);

    /* Without merges every byte is a token, however the text is split.  A vocabulary of bytes
     * in a tokenizer.json therefore has the hash of the byte tokenizer. */
    add_merges(&h, t);
    if (t->n_pairs > 0 || t->pipe.ignore_merges)
        add_steps(&h, &t->pipe.steps);
    if (t->pipe.ignore_merges)
        add_record(&h, 'i', 1, "", 0);
    add_changes(&h, t);

    wf_sha256_finish(&h, sum);
    for (int i = 0; i < 8; i++)
        hash = hash << 8 | sum[i];
    return hash == 0 ? 1 : hash;
}

/* -- the text of a hash -------------------------------------------------------------------- */

void wf_tokenizer_hash_print(uint64_t hash, char out[WF_TOKENIZER_HASH_SIZE])
{
    out[0] = '\0';
    if (hash != 0)
        snprintf(out, WF_TOKENIZER_HASH_SIZE, "%016" PRIx64, hash);
}

bool wf_tokenizer_hash_parse(const char *text, uint64_t *out)
{
    size_t len = strlen(text);
    bool valid = len == WF_TOKENIZER_HASH_SIZE - 1 && strspn(text, "0123456789abcdef") == len;
    if (len != 0 && !valid)
        return false;
    *out = len == 0 ? 0 : strtoull(text, NULL, 16);
    return true;
}
