/* The cache of block attention residuals.  Two kinds of items share one hash table and one
 * pool:
 *
 *     entry   (source, destination, block, micro), in the list of its micro
 *     micro   head of the list of its entries, in the queue of micros by age
 *
 * All entries have the current freshness, so the freshness is not part of the key.
 * Inserting or removing an item takes constant time on average, because neither scans the
 * queue or the table.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/size.h"
#include "planning/sim/cache_priv.h"

#define NONE UINT32_MAX

enum { FIRST_ITEMS = 64 };

enum tag { FREE, ENTRY, MICRO };

struct entry_key {
    uint32_t source, destination, block; /* all 0 if the item is a micro */
    uint32_t micro;
    uint32_t tag;
};

struct item {
    struct entry_key entry_key;
    uint32_t chain; /* next item in the same bucket or in the free list */
    uint32_t next;  /* entry: next entry of the same micro; micro: next younger micro */
    uint32_t first; /* micro: the first entry of the micro */
};

struct weft_cache {
    struct weft_cache_settings settings;
    struct weft_cache_stats stats;
    uint64_t freshness;
    bool has_freshness;
    size_t n_entries, n_micros;
    uint32_t oldest, youngest; /* the oldest and the youngest micro item */
    struct item *items;        /* owned: (n_items) */
    uint32_t *buckets;         /* owned: (n_items); the number of buckets is a power of two */
    uint32_t n_items;
    uint32_t n_used; /* items[n_used] and all later items were never used */
    uint32_t free;   /* first item of the list of removed items */
};

/* -- the table ------------------------------------------------------------------------------ */

static uint32_t bucket_of(const struct weft_cache *c, struct entry_key n)
{
    uint64_t a = (uint64_t)n.source << 32 | n.destination;
    uint64_t b = (uint64_t)n.block << 32 | n.micro;
    uint64_t h = wf_random_mix(a * UINT64_C(0x9e3779b97f4a7c15) + b + n.tag);
    return (uint32_t)h & (c->n_items - 1);
}

static bool same_key(const struct entry_key *a, const struct entry_key *b)
{
    return a->micro == b->micro && a->source == b->source && a->destination == b->destination &&
           a->block == b->block && a->tag == b->tag;
}

static uint32_t find(const struct weft_cache *c, struct entry_key entry_key)
{
    uint32_t i = c->n_items == 0 ? NONE : c->buckets[bucket_of(c, entry_key)];
    while (i != NONE && !same_key(&c->items[i].entry_key, &entry_key))
        i = c->items[i].chain;
    return i;
}

/* Doubles the number of items and rehashes the items in use. */
static enum weft_status grow(struct weft_cache *c, struct weft_error *err)
{
    if (c->n_items > UINT32_MAX / 4)
        return WEFT_FAIL(err, WEFT_NOMEM, "the cache is full (%u entries)", c->n_items);

    uint32_t n = c->n_items == 0 ? FIRST_ITEMS : 2 * c->n_items;
    uint32_t *buckets = malloc(sizeof *buckets * n);
    struct item *items = buckets == NULL ? NULL : realloc(c->items, sizeof *items * n);
    if (items == NULL) {
        free(buckets);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u cache entries", n);
    }

    free(c->buckets);
    memset(buckets, 0xff, sizeof *buckets * n);
    c->items = items;
    c->buckets = buckets;
    c->n_items = n;

    for (uint32_t i = 0; i < c->n_used; i++) {
        if (items[i].entry_key.tag == FREE)
            continue;
        uint32_t *head = &buckets[bucket_of(c, items[i].entry_key)];
        items[i].chain = *head;
        *head = i;
    }
    return WEFT_OK;
}

/* Inserts an item.  The table must have space for one more item. */
static uint32_t insert_item(struct weft_cache *c, struct entry_key entry_key)
{
    uint32_t i = c->free;
    if (i != NONE)
        c->free = c->items[i].chain;
    else
        i = c->n_used++;
    uint32_t *head = &c->buckets[bucket_of(c, entry_key)];
    c->items[i] = (struct item){entry_key, *head, NONE, NONE};
    *head = i;
    return i;
}

static void remove_item(struct weft_cache *c, uint32_t i)
{
    uint32_t *at = &c->buckets[bucket_of(c, c->items[i].entry_key)];
    while (*at != i)
        at = &c->items[*at].chain;
    *at = c->items[i].chain;
    c->items[i].entry_key.tag = FREE;
    c->items[i].chain = c->free;
    c->free = i;
}

/* -- micros by age -------------------------------------------------------------------------- */

static void drop_oldest(struct weft_cache *c)
{
    uint32_t micro = c->oldest;
    for (uint32_t i = c->items[micro].first; i != NONE;) {
        uint32_t next = c->items[i].next;
        remove_item(c, i);
        c->n_entries--;
        c->stats.invalidated_entries++;
        i = next;
    }
    c->oldest = c->items[micro].next;
    remove_item(c, micro);
    c->n_micros--;
}

static uint32_t add_micro(struct weft_cache *c, struct entry_key entry_key)
{
    while (c->n_micros >= wf_cache_max_micros(&c->settings))
        drop_oldest(c);
    uint32_t micro = insert_item(c, entry_key);
    if (c->n_micros++ == 0)
        c->oldest = micro;
    else
        c->items[c->youngest].next = micro;
    c->youngest = micro;
    return micro;
}

/* Adds an entry.  Also adds the entry's micro if the micro is not in the cache.  The table
 * must have space for two more items. */
static void add_entry(struct weft_cache *c, struct entry_key entry_key)
{
    struct entry_key owner = {.micro = entry_key.micro, .tag = MICRO};
    uint32_t micro = find(c, owner);
    if (micro == NONE)
        micro = add_micro(c, owner);
    uint32_t i = insert_item(c, entry_key);
    c->items[i].next = c->items[micro].first;
    c->items[micro].first = i;
    c->n_entries++;
}

/* -- the interface -------------------------------------------------------------------------- */

struct weft_cache_settings weft_cache_defaults(void)
{
    return (struct weft_cache_settings){false, WEFT_CACHE_POLICY_DISABLED, true, 1};
}

const char *weft_cache_policy_name(enum weft_cache_policy policy)
{
    switch (policy) {
    case WEFT_CACHE_POLICY_DISABLED:
        return "disabled";
    case WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES:
        return "resident_block_summaries";
    }
    return "?";
}

enum weft_status weft_cache_new(const struct weft_cache_settings *settings,
                                struct weft_cache **out, struct weft_error *err)
{
    struct weft_cache *c = calloc(1, sizeof *c);
    if (c == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a cache");
    c->settings = *settings;
    c->free = c->oldest = c->youngest = NONE;
    *out = c;
    return WEFT_OK;
}

void weft_cache_free(struct weft_cache *c)
{
    if (c == NULL)
        return;
    free(c->items);
    free(c->buckets);
    free(c);
}

void weft_cache_begin_freshness(struct weft_cache *c, uint64_t freshness)
{
    if (c->has_freshness && c->freshness == freshness)
        return;
    while (c->n_micros > 0)
        drop_oldest(c);
    c->freshness = freshness;
    c->has_freshness = true;
}

static struct entry_key entry_key_of(const struct weft_cache_key *key)
{
    return (struct entry_key){key->source, key->destination, key->block, key->micro, ENTRY};
}

bool weft_cache_contains(const struct weft_cache *c, const struct weft_cache_key *key)
{
    return c->has_freshness && c->freshness == key->freshness &&
           find(c, entry_key_of(key)) != NONE;
}

/* Checks the sum of requested bytes for overflow.  No other byte count is larger than this
 * sum, so one check is enough. */
static enum weft_status check_bytes(const struct weft_cache *c, size_t bytes,
                                    struct weft_error *err)
{
    size_t sum;
    if (!wf_size_add(c->stats.raw_payload_bytes_requested, bytes, &sum))
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "the sum of requested bytes overflows (%zu more than %zu)", bytes,
                         c->stats.raw_payload_bytes_requested);
    return WEFT_OK;
}

static void transmit(struct weft_cache *c, size_t bytes, enum weft_cache_result result,
                     struct weft_cache_access *out)
{
    c->stats.raw_payload_bytes_requested += bytes;
    c->stats.payload_bytes_transmitted += bytes;
    c->stats.cache_misses++;
    *out = (struct weft_cache_access){result, bytes};
}

enum weft_status weft_cache_access_bypass(struct weft_cache *c,
                                          const struct weft_cache_key *key, size_t bytes,
                                          struct weft_cache_access *out, struct weft_error *err)
{
    WEFT_TRY(check_bytes(c, bytes, err));
    weft_cache_begin_freshness(c, key->freshness);
    transmit(c, bytes, WEFT_CACHE_RESULT_BYPASS, out);
    return WEFT_OK;
}

static enum weft_status look_up(struct weft_cache *c, const struct weft_cache_key *key,
                                size_t bytes, bool backward, struct weft_cache_access *out,
                                struct weft_error *err)
{
    WEFT_TRY(check_bytes(c, bytes, err));
    if (!weft_cache_contains(c, key)) {
        /* grow() can fail, so it must run before the cache is changed. */
        if (c->n_entries + c->n_micros + 2 > c->n_items)
            WEFT_TRY(grow(c, err));
        weft_cache_begin_freshness(c, key->freshness);
        add_entry(c, entry_key_of(key));
        transmit(c, bytes, WEFT_CACHE_RESULT_MISS, out);
        return WEFT_OK;
    }
    c->stats.raw_payload_bytes_requested += bytes;
    c->stats.cache_hits++;
    c->stats.resend_count_avoided++;
    c->stats.backward_reuse_hits += backward;
    *out = (struct weft_cache_access){WEFT_CACHE_RESULT_HIT, 0};
    return WEFT_OK;
}

enum weft_status weft_cache_access_forward(struct weft_cache *c,
                                           const struct weft_cache_key *key, size_t bytes,
                                           struct weft_cache_access *out,
                                           struct weft_error *err)
{
    return wf_cache_is_on(&c->settings) ? look_up(c, key, bytes, false, out, err)
                                        : weft_cache_access_bypass(c, key, bytes, out, err);
}

enum weft_status weft_cache_access_backward(struct weft_cache *c,
                                            const struct weft_cache_key *key, size_t bytes,
                                            struct weft_cache_access *out,
                                            struct weft_error *err)
{
    bool reuse = wf_cache_is_on(&c->settings) && c->settings.reuse_across_backward;
    return reuse ? look_up(c, key, bytes, true, out, err)
                 : weft_cache_access_bypass(c, key, bytes, out, err);
}

const struct weft_cache_stats *weft_cache_stats(const struct weft_cache *c)
{
    return &c->stats;
}

bool weft_cache_freshness(const struct weft_cache *c, uint64_t *out)
{
    if (c->has_freshness)
        *out = c->freshness;
    return c->has_freshness;
}

size_t weft_cache_n_entries(const struct weft_cache *c)
{
    return c->n_entries;
}

size_t weft_cache_micros(const struct weft_cache *c, uint32_t *out, size_t capacity)
{
    uint32_t i = c->oldest;
    for (size_t k = 0; k < capacity && k < c->n_micros; k++) {
        out[k] = c->items[i].entry_key.micro;
        i = c->items[i].next;
    }
    return c->n_micros;
}
