/* Merges the bytes or characters of a piece of text into tokens.  Short pieces are scanned for
 * the pair of the lowest rank; long pieces use a heap of pairs, which takes O(n log n) time. */
#include "training/data/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

enum { SHORT = 48 }; /* maximum tokens of a piece for which scanning all pairs is fastest */

static const uint32_t NO_RANK = UINT32_MAX;

static struct wf_merge find_merge(const struct weft_tokenizer *t, int32_t left, int32_t right)
{
    struct wf_merge m = *wf_bpe_slot(t, (struct wf_token_pair){left, right});
    if (m.key == WF_NO_PAIR)
        m.rank = NO_RANK;
    return m;
}

/* -- the tokens to merge ------------------------------------------------------------------- */

/* Appends the token of what has no token. */
static size_t add_unknown(const struct weft_tokenizer *t, int32_t *out, size_t n,
                          bool *after_unknown)
{
    bool fuses = t->pipe.fuse_unknown && *after_unknown;
    *after_unknown = true;
    if (t->unknown != WEFT_NO_TOKEN && !fuses)
        out[n++] = t->unknown;
    return n;
}

static size_t put_chars(const struct weft_tokenizer *t, const unsigned char *piece, size_t len,
                        int32_t *out)
{
    size_t n = 0, n_char = 1;
    bool after_unknown = false;
    for (size_t at = 0; at < len; at += n_char) {
        int32_t id = WEFT_NO_TOKEN;
        n_char = 1;
        if (piece[at] < 0x80)
            id = t->ascii_ids[piece[at]];
        else if (wf_unicode_at(piece, len, at, &n_char) != WF_NOT_A_CHAR)
            id = wf_tokenizer_lookup(t, (const char *)piece + at, n_char);

        if (id == WEFT_NO_TOKEN && !t->pipe.byte_fallback) {
            n = add_unknown(t, out, n, &after_unknown);
            continue;
        }
        after_unknown = false;
        if (id != WEFT_NO_TOKEN)
            out[n++] = id;
        for (size_t i = 0; id == WEFT_NO_TOKEN && i < n_char; i++)
            out[n++] = t->byte_ids[piece[at + i]];
    }
    return n;
}

/* Writes the tokens of the bytes or characters of a piece, at most `len`, and returns their
 * number. */
static size_t put_symbols(const struct weft_tokenizer *t, const unsigned char *piece,
                          size_t len, int32_t *out)
{
    size_t n = 0;
    bool after_unknown = false;
    if (t->pipe.by_chars)
        return put_chars(t, piece, len, out);
    if (!t->has_gaps) {
        for (size_t i = 0; i < len; i++)
            out[i] = t->byte_ids[piece[i]];
        return len;
    }

    for (size_t i = 0; i < len; i++) {
        int32_t id = t->byte_ids[piece[i]];
        if (id == WEFT_NO_TOKEN) {
            n = add_unknown(t, out, n, &after_unknown);
            continue;
        }
        after_unknown = false;
        out[n++] = id;
    }
    return n;
}

/* -- short pieces -------------------------------------------------------------------------- */

static size_t merge_short(const struct weft_tokenizer *t, int32_t *out, size_t n)
{
    uint32_t rank[SHORT]; /* rank of the pair (i, i + 1) */
    int32_t result[SHORT];
    for (size_t i = 0; i + 1 < n; i++) {
        struct wf_merge m = find_merge(t, out[i], out[i + 1]);
        rank[i] = m.rank;
        result[i] = m.result;
    }

    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NO_RANK)
            break;
        out[best] = result[best];
        memmove(out + best + 1, out + best + 2, (n - best - 2) * sizeof *out);
        memmove(rank + best, rank + best + 1, (n - best - 2) * sizeof *rank);
        memmove(result + best, result + best + 1, (n - best - 2) * sizeof *result);
        n--;
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            struct wf_merge m = find_merge(t, out[i], out[i + 1]);
            rank[i] = m.rank;
            result[i] = m.result;
        }
    }
    return n;
}

/* -- long pieces: a linked list of tokens and a heap of their pairs ------------------------ */

struct wf_bpe_node {
    int32_t token; /* WEFT_NO_TOKEN: this node was merged into the previous node */
    int32_t prev, next;
};

/* A pair as it was when it was pushed to the heap.  The entry is stale if one of the two tokens
 * has changed since then. */
struct wf_bpe_entry {
    uint32_t rank;
    int32_t at;
    int32_t left, right, result;
};

void wf_bpe_scratch_release(struct wf_bpe_scratch *scratch)
{
    free(scratch->nodes);
    free(scratch->heap);
    *scratch = (struct wf_bpe_scratch){0};
}

static bool comes_first(const struct wf_bpe_entry *a, const struct wf_bpe_entry *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_down(struct wf_bpe_scratch *scratch, size_t i)
{
    struct wf_bpe_entry moved = scratch->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= scratch->n_heap)
            break;
        if (child + 1 < scratch->n_heap &&
            comes_first(&scratch->heap[child + 1], &scratch->heap[child]))
            child++;
        if (!comes_first(&scratch->heap[child], &moved))
            break;
        scratch->heap[i] = scratch->heap[child];
        i = child;
    }
    scratch->heap[i] = moved;
}

static void heap_push(struct wf_bpe_scratch *scratch, struct wf_bpe_entry entry)
{
    size_t i = scratch->n_heap++;
    while (i > 0 && comes_first(&entry, &scratch->heap[(i - 1) / 2])) {
        scratch->heap[i] = scratch->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    scratch->heap[i] = entry;
}

static struct wf_bpe_entry heap_pop(struct wf_bpe_scratch *scratch)
{
    struct wf_bpe_entry top = scratch->heap[0];
    scratch->heap[0] = scratch->heap[--scratch->n_heap];
    if (scratch->n_heap > 0)
        heap_down(scratch, 0);
    return top;
}

/* Reserves memory for a piece of `len` bytes.  Each merge adds at most two pairs to the heap,
 * and there are fewer merges than bytes. */
static enum weft_status reserve_scratch(struct wf_bpe_scratch *scratch, size_t len,
                                        struct weft_error *err)
{
    if (len <= scratch->n_nodes)
        return WEFT_OK;
    wf_bpe_scratch_release(scratch);
    scratch->nodes = malloc(len * sizeof *scratch->nodes);
    scratch->heap = malloc(3 * len * sizeof *scratch->heap);
    if (scratch->nodes == NULL || scratch->heap == NULL) {
        wf_bpe_scratch_release(scratch);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a word of %zu bytes", len);
    }
    scratch->n_nodes = len;
    return WEFT_OK;
}

static void push_pair(const struct weft_tokenizer *t, struct wf_bpe_scratch *scratch,
                      int32_t at)
{
    const struct wf_bpe_node *left = &scratch->nodes[at];
    if (left->next < 0)
        return;
    int32_t right = scratch->nodes[left->next].token;
    struct wf_merge m = find_merge(t, left->token, right);
    if (m.rank != NO_RANK)
        heap_push(scratch, (struct wf_bpe_entry){m.rank, at, left->token, right, m.result});
}

static void merge_all(const struct weft_tokenizer *t, struct wf_bpe_scratch *scratch)
{
    struct wf_bpe_node *nodes = scratch->nodes;
    while (scratch->n_heap > 0) {
        struct wf_bpe_entry e = heap_pop(scratch);
        struct wf_bpe_node *left = &nodes[e.at];
        if (left->token != e.left || left->next < 0 || nodes[left->next].token != e.right)
            continue;
        struct wf_bpe_node *right = &nodes[left->next];
        left->token = e.result;
        left->next = right->next;
        right->token = WEFT_NO_TOKEN;
        if (left->next >= 0)
            nodes[left->next].prev = e.at;
        if (left->prev >= 0)
            push_pair(t, scratch, left->prev);
        push_pair(t, scratch, e.at);
    }
}

/* Merges *n tokens in place and updates *n. */
static enum weft_status merge_long(const struct weft_tokenizer *t,
                                   struct wf_bpe_scratch *scratch, int32_t *out, size_t *n,
                                   struct weft_error *err)
{
    size_t len = *n;
    if (len > WF_TOKENIZER_MAX_PIECE)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%zu bytes of text without a place to split (maximum %d)", len,
                         WF_TOKENIZER_MAX_PIECE);

    WEFT_TRY(reserve_scratch(scratch, len, err));
    scratch->n_heap = 0;
    for (size_t i = 0; i < len; i++)
        scratch->nodes[i] =
            (struct wf_bpe_node){out[i], (int32_t)i - 1, i + 1 < len ? (int32_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < len; i++)
        push_pair(t, scratch, (int32_t)i);
    merge_all(t, scratch);

    *n = 0;
    for (int32_t i = 0; i >= 0; i = scratch->nodes[i].next)
        out[(*n)++] = scratch->nodes[i].token;
    return WEFT_OK;
}

enum weft_status wf_bpe_encode(const struct weft_tokenizer *t, struct wf_bpe_scratch *scratch,
                               const char *piece, size_t len, struct weft_tokens *out,
                               struct weft_error *err)
{
    size_t n = 0;
    WEFT_TRY(wf_tokens_reserve(out, len, err));
    int32_t *to = out->at + out->len;
    int32_t whole =
        t->pipe.ignore_merges && len > 1 ? wf_tokenizer_lookup(t, piece, len) : WEFT_NO_TOKEN;
    if (whole != WEFT_NO_TOKEN) {
        to[n++] = whole;
    } else {
        n = put_symbols(t, (const unsigned char *)piece, len, to);
        if (n <= SHORT)
            n = merge_short(t, to, n);
        else
            WEFT_TRY(merge_long(t, scratch, to, &n, err));
    }
    out->len += n;
    return WEFT_OK;
}
