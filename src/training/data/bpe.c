#include "training/data/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

enum { SHORT = 48 }; /* bytes of a piece for which looking at all pairs is fastest */

static const uint32_t NO_RANK = UINT32_MAX;

static struct weft_merge merge_of(const struct weft_tokenizer *t, int32_t left, int32_t right)
{
    struct weft_merge m = *weft_bpe_slot(t, (struct weft_token_pair){left, right});
    if (m.key == WEFT_NO_PAIR)
        m.rank = NO_RANK;
    return m;
}

/* -- short pieces --------------------------------------------------------------------------- */

static size_t encode_short(const struct weft_tokenizer *t, const unsigned char *piece, size_t n,
                           int32_t *out)
{
    uint32_t rank[SHORT]; /* of the pair (i, i + 1) */
    int32_t result[SHORT];
    for (size_t i = 0; i < n; i++)
        out[i] = t->of_byte[piece[i]];
    for (size_t i = 0; i + 1 < n; i++) {
        struct weft_merge m = merge_of(t, out[i], out[i + 1]);
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
            struct weft_merge m = merge_of(t, out[i], out[i + 1]);
            rank[i] = m.rank;
            result[i] = m.result;
        }
    }
    return n;
}

/* -- long pieces: a list of tokens, and a heap of the pairs in it ------------------------------ */

struct weft_bpe_node {
    int32_t token; /* WEFT_NO_TOKEN: it was merged into the one before */
    int32_t before, behind;
};

/* A pair as it was when it was found: it is out of date when the tokens there are others. */
struct weft_bpe_entry {
    uint32_t rank;
    int32_t at;
    int32_t left, right, result;
};

void weft_bpe_room_release(struct weft_bpe_room *room)
{
    free(room->nodes);
    free(room->heap);
    *room = (struct weft_bpe_room){0};
}

static bool comes_first(const struct weft_bpe_entry *a, const struct weft_bpe_entry *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_down(struct weft_bpe_room *room, size_t i)
{
    struct weft_bpe_entry moved = room->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= room->n_heap)
            break;
        if (child + 1 < room->n_heap && comes_first(&room->heap[child + 1], &room->heap[child]))
            child++;
        if (!comes_first(&room->heap[child], &moved))
            break;
        room->heap[i] = room->heap[child];
        i = child;
    }
    room->heap[i] = moved;
}

static void heap_push(struct weft_bpe_room *room, struct weft_bpe_entry entry)
{
    size_t i = room->n_heap++;
    while (i > 0 && comes_first(&entry, &room->heap[(i - 1) / 2])) {
        room->heap[i] = room->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    room->heap[i] = entry;
}

static struct weft_bpe_entry heap_pop(struct weft_bpe_room *room)
{
    struct weft_bpe_entry top = room->heap[0];
    room->heap[0] = room->heap[--room->n_heap];
    if (room->n_heap > 0)
        heap_down(room, 0);
    return top;
}

/* Every merge adds at most two pairs, and there are fewer merges than bytes. */
static enum weft_status reserve_room(struct weft_bpe_room *room, size_t len,
                                     struct weft_error *err)
{
    if (len <= room->n_nodes)
        return WEFT_OK;
    weft_bpe_room_release(room);
    room->nodes = malloc(len * sizeof *room->nodes);
    room->heap = malloc(3 * len * sizeof *room->heap);
    if (room->nodes == NULL || room->heap == NULL) {
        weft_bpe_room_release(room);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a word of %zu bytes", len);
    }
    room->n_nodes = len;
    return WEFT_OK;
}

static void note_pair(const struct weft_tokenizer *t, struct weft_bpe_room *room, int32_t at)
{
    const struct weft_bpe_node *left = &room->nodes[at];
    if (left->behind < 0)
        return;
    int32_t right = room->nodes[left->behind].token;
    struct weft_merge m = merge_of(t, left->token, right);
    if (m.rank != NO_RANK)
        heap_push(room, (struct weft_bpe_entry){m.rank, at, left->token, right, m.result});
}

static void merge_all(const struct weft_tokenizer *t, struct weft_bpe_room *room)
{
    struct weft_bpe_node *nodes = room->nodes;
    while (room->n_heap > 0) {
        struct weft_bpe_entry e = heap_pop(room);
        struct weft_bpe_node *left = &nodes[e.at];
        if (left->token != e.left || left->behind < 0 || nodes[left->behind].token != e.right)
            continue;
        struct weft_bpe_node *right = &nodes[left->behind];
        left->token = e.result;
        left->behind = right->behind;
        right->token = WEFT_NO_TOKEN;
        if (left->behind >= 0)
            nodes[left->behind].before = e.at;
        if (left->before >= 0)
            note_pair(t, room, left->before);
        note_pair(t, room, e.at);
    }
}

static enum weft_status encode_long(const struct weft_tokenizer *t, struct weft_bpe_room *room,
                                    const unsigned char *piece, size_t len, int32_t *out,
                                    size_t *n_out, struct weft_error *err)
{
    if (len > WEFT_TOKENIZER_MAX_PIECE)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%zu bytes of text without a place to split it: a word may have %d",
                         len, WEFT_TOKENIZER_MAX_PIECE);
    WEFT_TRY(reserve_room(room, len, err));
    room->n_heap = 0;
    for (size_t i = 0; i < len; i++)
        room->nodes[i] = (struct weft_bpe_node){t->of_byte[piece[i]], (int32_t)i - 1,
                                                i + 1 < len ? (int32_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < len; i++)
        note_pair(t, room, (int32_t)i);
    merge_all(t, room);
    size_t n = 0;
    for (int32_t i = 0; i >= 0; i = room->nodes[i].behind)
        out[n++] = room->nodes[i].token;
    *n_out = n;
    return WEFT_OK;
}

enum weft_status weft_bpe_encode(const struct weft_tokenizer *t, struct weft_bpe_room *room,
                                 const char *piece, size_t len, struct weft_tokens *out,
                                 struct weft_error *err)
{
    const unsigned char *bytes = (const unsigned char *)piece;
    size_t n = 0;
    WEFT_TRY(weft_tokens_reserve(out, len, err));
    int32_t *to = out->at + out->len;
    int32_t whole =
        t->ignore_merges && len > 1 ? weft_token_by_bytes(t, piece, len) : WEFT_NO_TOKEN;
    if (whole != WEFT_NO_TOKEN)
        to[n++] = whole;
    else if (len <= SHORT)
        n = encode_short(t, bytes, len, to);
    else
        WEFT_TRY(encode_long(t, room, bytes, len, to, &n, err));
    out->len += n;
    return WEFT_OK;
}
