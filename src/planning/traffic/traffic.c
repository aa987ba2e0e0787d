/* Creates the table of blocks by one pass over the stages that tracks the cache of each
 * rank. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/traffic/traffic_priv.h"

const char *weft_block_cache_name(enum weft_block_cache cache)
{
    switch (cache) {
    case WEFT_BLOCK_CACHE_OFF:
        return "off";
    case WEFT_BLOCK_CACHE_RECEIVED:
        return "received";
    case WEFT_BLOCK_CACHE_FULL:
        return "full";
    }
    return "?";
}

enum weft_status weft_residual_blocks(const struct weft_partition *p, uint32_t layers_per_block,
                                      uint32_t **out, uint32_t *n, struct weft_error *err)
{
    if (layers_per_block == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "0 layers per residual block; give at least 1");
    if (p->n_stages == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "the partition has no stages");

    uint32_t layers = p->at[p->n_stages - 1].end_layer;
    uint32_t count = 1 + layers / layers_per_block + (layers % layers_per_block != 0);
    uint32_t *at = malloc(sizeof *at * count);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u residual blocks", count);

    at[0] = 0;
    uint32_t block = 1;
    for (uint32_t s = 0; s < p->n_stages; s++)
        for (; block <= layers / layers_per_block &&
               block * layers_per_block <= p->at[s].end_layer;
             block++)
            at[block] = s;
    if (block < count)
        at[block] = p->n_stages - 1; /* the head finishes this block */
    *out = at;
    *n = count;
    return WEFT_OK;
}

/* -- creation ------------------------------------------------------------------------------ */

/* The caches of all ranks for one micro-batch in one pipe. */
struct caches {
    uint32_t
        *source;     /* owned: (ranks, blocks), the stage that received or finished the block */
    size_t capacity; /* capacity of t->sends */
};

static bool add_send(struct weft_traffic *t, struct caches *c, size_t *n, uint32_t block)
{
    if (*n == c->capacity) {
        size_t capacity = 2 * c->capacity + 64, bytes;
        uint32_t *sends =
            wf_size_mul(capacity, sizeof *sends, &bytes) ? realloc(t->sends, bytes) : NULL;
        if (sends == NULL)
            return false;
        t->sends = sends;
        c->capacity = capacity;
    }
    t->sends[(*n)++] = block;
    return true;
}

/* Determines the source, a send or the cache, of each block that is finished before `stage`. */
static bool receive_blocks(struct weft_traffic *t, struct caches *c, uint32_t pipe,
                           uint32_t stage, size_t *n)
{
    const uint32_t *rank_of = t->rank_of + wf_traffic_index(t, pipe, 0);
    struct weft_traffic_count *count = &t->counts[pipe];
    uint32_t *source = t->sources + wf_traffic_index(t, pipe, stage) * t->n_blocks;
    const uint32_t *before = source - t->n_blocks;
    uint32_t *cached = c->source + (size_t)rank_of[stage] * t->n_blocks;
    bool local = rank_of[stage - 1] == rank_of[stage];
    count->hops += !local;
    count->wanted += t->first[stage];

    for (uint32_t b = 0; b < t->first[stage]; b++) {
        assert(before[b] != WEFT_NO_STAGE); /* the previous stage has the block */
        if (local) {
            source[b] = before[b];
            count->handed++;
        } else if (cached[b] != WEFT_NO_STAGE) {
            source[b] = cached[b];
            bool finished = b >= t->first[cached[b]];
            *(finished ? &count->hits_made : &count->hits_received) += 1;
        } else {
            source[b] = stage;
            count->sent++;
            if (!add_send(t, c, n, b))
                return false;
        }
        if (t->cache != WEFT_BLOCK_CACHE_OFF)
            cached[b] = source[b];
    }
    return true;
}

static void finish_blocks(struct weft_traffic *t, struct caches *c, uint32_t pipe,
                          uint32_t stage)
{
    uint32_t *source = t->sources + wf_traffic_index(t, pipe, stage) * t->n_blocks;
    uint32_t rank = t->rank_of[wf_traffic_index(t, pipe, stage)];
    for (uint32_t b = t->first[stage]; b < t->first[stage + 1]; b++) {
        source[b] = stage;
        if (t->cache == WEFT_BLOCK_CACHE_FULL)
            c->source[(size_t)rank * t->n_blocks + b] = stage;
    }
}

/* Records, for the rank of a stage, the first source of each block. */
static void record_first(struct weft_traffic *t, uint32_t pipe, uint32_t stage)
{
    uint32_t *row = wf_traffic_rank_row(t, pipe, t->rank_of[wf_traffic_index(t, pipe, stage)]);
    for (uint32_t b = 0; b < t->first[stage + 1]; b++)
        if (row[b] == WEFT_NO_STAGE)
            row[b] = weft_traffic_source(t, pipe, stage, b);
}

static bool fill_table(struct weft_traffic *t)
{
    struct caches c = {0};
    size_t cells = (size_t)t->place.n_ranks * t->n_blocks, n = 0;
    bool ok = (c.source = malloc(sizeof *c.source * (cells + 1))) != NULL;
    for (uint32_t pipe = 0; ok && pipe < t->place.n_pipes; pipe++) {
        memset(c.source, 0xff, sizeof *c.source * cells);
        for (uint32_t stage = 0; ok && stage < t->place.n_stages; stage++) {
            if (stage > 0) {
                t->begin[wf_traffic_index(t, pipe, stage - 1)] = n;
                ok = receive_blocks(t, &c, pipe, stage, &n);
            }
            finish_blocks(t, &c, pipe, stage);
            record_first(t, pipe, stage);
        }
        t->begin[wf_traffic_index(t, pipe, t->place.n_stages - 1)] = n;
    }
    t->begin[(size_t)t->place.n_pipes * t->place.n_stages] = n;
    free(c.source);
    return ok;
}

/* -- the object ---------------------------------------------------------------------------- */

static enum weft_status check(const struct weft_placement *p, const uint32_t *finished_by,
                              uint32_t n_blocks, struct weft_error *err)
{
    if (p->n_ranks == 0 || p->n_stages == 0 || p->n_pipes == 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the placement has %u ranks, %u stages and %u pipes; give at least 1 each",
            p->n_ranks, p->n_stages, p->n_pipes);
    for (size_t i = 0; i < (size_t)p->n_pipes * p->n_stages; i++)
        if (p->rank_of[i] >= p->n_ranks)
            return WEFT_FAIL(err, WEFT_USAGE, "stage %zu is placed on rank %u of %u",
                             i % p->n_stages, p->rank_of[i], p->n_ranks);

    for (uint32_t micro = 0; p->n_pipes > 1 && micro < p->n_micros; micro++)
        if (p->pipe_of == NULL || p->pipe_of[micro] >= p->n_pipes)
            return WEFT_FAIL(err, WEFT_USAGE, "micro %u is in none of the %u pipes", micro,
                             p->n_pipes);
    for (uint32_t b = 0; b < n_blocks; b++) {
        if (finished_by[b] >= p->n_stages)
            return WEFT_FAIL(err, WEFT_USAGE, "block %u is finished by stage %u of %u", b,
                             finished_by[b], p->n_stages);
        if (b > 0 && finished_by[b] < finished_by[b - 1])
            return WEFT_FAIL(err, WEFT_USAGE,
                             "block %u is finished by stage %u, but block %u by stage %u", b,
                             finished_by[b], b - 1, finished_by[b - 1]);
    }
    return WEFT_OK;
}

static bool allocate(struct weft_traffic *t)
{
    size_t cells = (size_t)t->place.n_pipes * t->place.n_stages, bytes, by_rank;
    size_t row = sizeof *t->sources * t->n_blocks;
    if (!wf_size_mul(cells, row, &bytes) ||
        !wf_size_mul((size_t)t->place.n_pipes * t->place.n_ranks, row, &by_rank))
        return false;

    t->rank_of = malloc(sizeof *t->rank_of * cells);
    t->micros = calloc(t->place.n_pipes, sizeof *t->micros);
    t->first = calloc((size_t)t->place.n_stages + 1, sizeof *t->first);
    t->numbers = malloc(sizeof *t->numbers * ((size_t)t->n_blocks + 1));
    t->sources = malloc(bytes > 0 ? bytes : 1);
    t->rank_sources = malloc(by_rank > 0 ? by_rank : 1);
    t->begin = malloc(sizeof *t->begin * (cells + 1));
    t->counts = calloc(t->place.n_pipes, sizeof *t->counts);
    if (t->rank_of == NULL || t->micros == NULL || t->first == NULL || t->numbers == NULL ||
        t->sources == NULL || t->rank_sources == NULL || t->begin == NULL || t->counts == NULL)
        return false;

    memset(t->sources, 0xff, bytes);
    memset(t->rank_sources, 0xff, by_rank);
    return true;
}

static void fill_header(struct weft_traffic *t, const struct weft_placement *p,
                        const uint32_t *finished_by)
{
    memcpy(t->rank_of, p->rank_of, sizeof *t->rank_of * p->n_pipes * p->n_stages);
    t->place.rank_of = t->rank_of;
    t->place.pipe_of = NULL;
    for (uint32_t micro = 0; p->n_pipes > 1 && micro < p->n_micros; micro++)
        t->micros[weft_placement_pipe(p, micro)]++;
    if (p->n_pipes == 1)
        t->micros[0] = p->n_micros;
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        t->numbers[b] = b;
        t->first[finished_by[b] + 1] = b + 1;
    }
    for (uint32_t s = 0; s < p->n_stages; s++)
        if (t->first[s + 1] < t->first[s])
            t->first[s + 1] = t->first[s];
}

enum weft_status weft_traffic_new(const struct weft_placement *placement,
                                  const uint32_t *finished_by, uint32_t n_blocks,
                                  enum weft_block_cache cache, struct weft_traffic **out,
                                  struct weft_error *err)
{
    WEFT_TRY(check(placement, finished_by, n_blocks, err));
    struct weft_traffic *t = calloc(1, sizeof *t);
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the table of blocks");

    t->place = *placement;
    t->cache = cache;
    t->n_blocks = n_blocks;
    bool ok = allocate(t);
    if (ok) {
        fill_header(t, placement, finished_by);
        ok = fill_table(t);
    }
    if (!ok) {
        weft_traffic_free(t);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a table of %u blocks by %u stages",
                         n_blocks, placement->n_stages);
    }
    *out = t;
    return WEFT_OK;
}

void weft_traffic_free(struct weft_traffic *t)
{
    if (t == NULL)
        return;
    free(t->rank_of);
    free(t->micros);
    free(t->first);
    free(t->numbers);
    free(t->sources);
    free(t->rank_sources);
    free(t->sends);
    free(t->begin);
    free(t->counts);
    free(t);
}

/* -- getters ------------------------------------------------------------------------------- */

const struct weft_placement *weft_traffic_placement(const struct weft_traffic *t)
{
    return &t->place;
}

enum weft_block_cache weft_traffic_cache(const struct weft_traffic *t)
{
    return t->cache;
}

uint32_t weft_traffic_n_blocks(const struct weft_traffic *t)
{
    return t->n_blocks;
}

struct weft_block_span weft_traffic_sends(const struct weft_traffic *t, uint32_t pipe,
                                          uint32_t stage)
{
    size_t at = wf_traffic_index(t, pipe, stage), len = t->begin[at + 1] - t->begin[at];
    return (struct weft_block_span){len > 0 ? t->sends + t->begin[at] : NULL, len};
}

struct weft_block_span weft_traffic_receives(const struct weft_traffic *t, uint32_t pipe,
                                             uint32_t stage)
{
    return stage == 0 ? (struct weft_block_span){NULL, 0}
                      : weft_traffic_sends(t, pipe, stage - 1);
}

struct weft_block_span weft_traffic_finishes(const struct weft_traffic *t, uint32_t stage)
{
    return (struct weft_block_span){t->numbers + t->first[stage],
                                    t->first[stage + 1] - t->first[stage]};
}

uint32_t weft_traffic_source(const struct weft_traffic *t, uint32_t pipe, uint32_t stage,
                             uint32_t block)
{
    return t->sources[wf_traffic_index(t, pipe, stage) * t->n_blocks + block];
}

uint32_t weft_traffic_rank_source(const struct weft_traffic *t, uint32_t pipe, uint32_t rank,
                                  uint32_t block)
{
    return wf_traffic_rank_row(t, pipe, rank)[block];
}

struct weft_traffic_count weft_traffic_count(const struct weft_traffic *t, uint32_t pipe)
{
    return t->counts[pipe];
}

/* -- verification -------------------------------------------------------------------------- */

static bool contains(struct weft_block_span span, uint32_t block)
{
    for (size_t low = 0, high = span.len; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (span.at[middle] == block)
            return true;
        if (span.at[middle] < block)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool has_block(const struct weft_traffic *t, uint32_t pipe, uint32_t stage,
                      uint32_t block)
{
    uint32_t from = weft_traffic_source(t, pipe, stage, block);
    return from <= stage &&
           t->rank_of[wf_traffic_index(t, pipe, from)] ==
               t->rank_of[wf_traffic_index(t, pipe, stage)] &&
           (contains(weft_traffic_receives(t, pipe, from), block) ||
            contains(weft_traffic_finishes(t, from), block));
}

enum weft_status weft_traffic_verify(const struct weft_traffic *t, struct weft_error *err)
{
    for (uint32_t pipe = 0; pipe < t->place.n_pipes; pipe++)
        for (uint32_t s = 0; s < t->place.n_stages; s++) {
            struct weft_block_span sends = weft_traffic_sends(t, pipe, s);
            for (uint32_t b = 0; b < t->n_blocks; b++)
                if (has_block(t, pipe, s, b) != (b < t->first[s + 1]))
                    return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u of pipe %u: block %u is %s",
                                     s, pipe, b,
                                     b < t->first[s + 1] ? "missing" : "available too early");
            for (size_t i = 0; i < sends.len; i++)
                if (!has_block(t, pipe, s, sends.at[i]))
                    return WEFT_FAIL(
                        err, WEFT_INTERNAL,
                        "stage %u of pipe %u sends block %u, which it does not have", s, pipe,
                        sends.at[i]);
        }
    return WEFT_OK;
}
