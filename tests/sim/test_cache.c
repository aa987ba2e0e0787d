/* Compares the cache with recordings of the first reference system and with a
 * simple slow cache. */
#include "base/random.h"
#include "sched/lines.h"
#include "weft/cache.h"

/* -- recorded scripts ---------------------------------------------------------------------- */

static uint64_t number(const struct lines *l, int field)
{
    return strtoull(l->fields[field], NULL, 10);
}

static struct weft_cache_key decode(char where, char what)
{
    unsigned a = (unsigned)(where - '0') % 12, b = (unsigned)(what - '0');
    return (struct weft_cache_key){
        .source = a / 4, .destination = a % 4, .block = b / 20, .micro = b % 20};
}

static enum weft_status access_kind(struct weft_cache *c, unsigned kind,
                                    const struct weft_cache_key *key, size_t bytes,
                                    struct weft_cache_access *out)
{
    if (kind == 0)
        return weft_cache_access_forward(c, key, bytes, out, NULL);
    if (kind == 1)
        return weft_cache_access_backward(c, key, bytes, out, NULL);
    return weft_cache_access_bypass(c, key, bytes, out, NULL);
}

static void expect_stats(const struct lines *l, int field, const struct weft_cache_stats *s)
{
    const size_t got[] = {s->raw_payload_bytes_requested,
                          s->payload_bytes_transmitted,
                          s->cache_hits,
                          s->cache_misses,
                          s->resend_count_avoided,
                          s->backward_reuse_hits,
                          s->invalidated_entries};
    for (int i = 0; i < 7; i++)
        if (number(l, field + i) != got[i])
            fail_line(l, "figure %d is %zu, not %s", i, got[i], l->fields[field + i]);
}

static void run_script(const struct lines *l, struct weft_cache *c)
{
    static const size_t sizes[] = {0, 1, 64, 100, 4096};
    uint64_t results = FNV_START, dropped = FNV_START;
    char text[64];
    for (const char *at = l->fields[4]; *at != '\0'; at += 4) {
        struct weft_cache_key key = decode(at[0], at[1]);
        struct weft_cache_access got;
        key.freshness = at[2] - '0' == 20 ? UINT64_MAX : (uint64_t)(at[2] - '0');
        assert_int_equal(
            access_kind(c, (unsigned)(at[0] - '0') / 12, &key, sizes[at[3] - '0'], &got),
            WEFT_OK);
        snprintf(text, sizeof text, "%d:%zu ", (int)got.result, got.transmitted_bytes);
        results = fnv_add(results, text, strlen(text));
        snprintf(text, sizeof text, "%zu ", weft_cache_stats(c)->invalidated_entries);
        dropped = fnv_add(dropped, text, strlen(text));
    }
    if (strtoull(l->fields[12], NULL, 16) != results)
        fail_line(l, "other results");
    if (strtoull(l->fields[13], NULL, 16) != dropped)
        fail_line(l, "entries dropped at other times");
}

static void expect_contents(const struct lines *l, const struct weft_cache *c)
{
    uint64_t freshness = 0;
    uint32_t micros[64];
    double want[64];
    bool empty = l->fields[15][0] == '-';
    size_t n = empty ? 0 : lines_list(l, 15, want, 64), entries = 0;

    assert_true(weft_cache_freshness(c, &freshness));
    if (freshness != number(l, 14))
        fail_line(l, "other freshness");
    if (weft_cache_micros(c, micros, 64) != n)
        fail_line(l, "another number of micros");

    for (size_t i = 0; i < n; i++)
        if (micros[i] != (uint32_t)want[i])
            fail_line(l, "micro %u in place %zu", micros[i], i);

    for (const char *at = l->fields[16]; *at != '\0' && *at != '-'; at += 2, entries++) {
        struct weft_cache_key key = decode(at[0], at[1]);
        key.freshness = freshness;
        if (!weft_cache_contains(c, &key))
            fail_line(l, "entry %zu is missing", entries);
        key.freshness++;
        assert_false(weft_cache_contains(c, &key));
    }

    if (weft_cache_n_entries(c) != entries)
        fail_line(l, "%zu entries, not %zu", weft_cache_n_entries(c), entries);
}

static void check_scripts(void **state)
{
    struct lines l;
    int n = 0;
    (void)state;
    for (lines_open(&l, "cache_scripts.txt"); lines_next(&l); n++) {
        struct weft_cache_settings settings = {lines_count(&l, 0) != 0,
                                               l.fields[1][0] == 'r'
                                                   ? WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES
                                                   : WEFT_CACHE_POLICY_DISABLED,
                                               lines_count(&l, 2) != 0, lines_count(&l, 3)};
        struct weft_cache *c = NULL;
        uint64_t freshness;
        assert_int_equal(weft_cache_new(&settings, &c, NULL), WEFT_OK);
        assert_false(weft_cache_freshness(c, &freshness));
        run_script(&l, c);
        expect_stats(&l, 5, weft_cache_stats(c));
        expect_contents(&l, c);
        weft_cache_free(c);
    }
    assert_in_range(n, 304, 100000);
}

/* -- a simple slow cache ------------------------------------------------------------------- */

enum { MOST = 4096 };

struct slow {
    struct weft_cache_settings settings;
    struct weft_cache_stats stats;
    struct weft_cache_key entries[MOST];
    uint32_t fifo[MOST];
    size_t n_entries, n_fifo;
    uint64_t freshness;
    bool any;
};

static bool slow_equal(const struct weft_cache_key *a, const struct weft_cache_key *b)
{
    return a->source == b->source && a->destination == b->destination && a->block == b->block &&
           a->micro == b->micro && a->freshness == b->freshness;
}

static void slow_evict(struct slow *c)
{
    uint32_t micro = c->fifo[0];
    size_t kept = 0;
    for (size_t i = 0; i < c->n_entries; i++)
        if (c->entries[i].micro != micro)
            c->entries[kept++] = c->entries[i];
    c->stats.invalidated_entries += c->n_entries - kept;
    c->n_entries = kept;
    for (size_t i = 1; i < c->n_fifo; i++)
        c->fifo[i - 1] = c->fifo[i];
    c->n_fifo--;
}

static void slow_insert(struct slow *c, const struct weft_cache_key *key)
{
    size_t cap = c->settings.max_inflight_micros == 0 ? 1 : c->settings.max_inflight_micros;
    bool known = false;
    for (size_t i = 0; i < c->n_fifo; i++)
        known |= c->fifo[i] == key->micro;
    if (!known) {
        while (c->n_fifo >= cap)
            slow_evict(c);
        c->fifo[c->n_fifo++] = key->micro;
    }
    c->entries[c->n_entries++] = *key;
}

static struct weft_cache_access slow_access(struct slow *c, unsigned kind,
                                            const struct weft_cache_key *key, size_t bytes)
{
    bool on = c->settings.enabled && c->settings.policy != WEFT_CACHE_POLICY_DISABLED;

    if (!c->any || c->freshness != key->freshness) {
        c->stats.invalidated_entries += c->n_entries;
        c->n_entries = c->n_fifo = 0;
        c->freshness = key->freshness;
        c->any = true;
    }

    c->stats.raw_payload_bytes_requested += bytes;
    bool cached = on && (kind == 0 || (kind == 1 && c->settings.reuse_across_backward));

    for (size_t i = 0; cached && i < c->n_entries; i++)
        if (slow_equal(&c->entries[i], key)) {
            c->stats.cache_hits++;
            c->stats.resend_count_avoided++;
            c->stats.backward_reuse_hits += kind == 1;
            return (struct weft_cache_access){WEFT_CACHE_RESULT_HIT, 0};
        }

    c->stats.cache_misses++;
    c->stats.payload_bytes_transmitted += bytes;
    if (cached)
        slow_insert(c, key);
    return (struct weft_cache_access){
        cached ? WEFT_CACHE_RESULT_MISS : WEFT_CACHE_RESULT_BYPASS, bytes};
}

/* A sequence of numbers from the stateless generator. */
struct dice {
    uint64_t seed, position;
};

static uint32_t roll(struct dice *d, uint32_t n)
{
    return wf_random_below(d->seed, 7, d->position++, n);
}

/* Limits of a random script. */
struct extent {
    uint32_t accesses, cap, micros, blocks, steady;
};

static void run_random(uint64_t seed, struct extent max)
{
    static struct slow slow; /* large; entries beyond its counts are never read */
    struct dice d = {seed, 0};

    slow.settings = (struct weft_cache_settings){
        roll(&d, 16) != 0,
        roll(&d, 16) != 0 ? WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES
                          : WEFT_CACHE_POLICY_DISABLED,
        roll(&d, 4) != 0, roll(&d, max.cap + 1)};
    slow.stats = (struct weft_cache_stats){0};
    slow.n_entries = slow.n_fifo = 0;
    slow.any = false;

    struct weft_cache *c = NULL;
    uint32_t n = 1 + roll(&d, max.accesses), ranks = 1 + roll(&d, 4);
    uint32_t micros = 1 + roll(&d, max.micros), blocks = 1 + roll(&d, max.blocks);
    uint32_t steady = 1 + roll(&d, max.steady);
    uint64_t freshness = 0;

    assert_int_equal(weft_cache_new(&slow.settings, &c, NULL), WEFT_OK);
    for (uint32_t i = 0; i < n; i++) {
        if (roll(&d, steady) == 0)
            freshness = roll(&d, 3); /* forward and backward */
        struct weft_cache_key key = {roll(&d, ranks), roll(&d, ranks), roll(&d, blocks),
                                     roll(&d, micros), freshness};
        unsigned kind = roll(&d, 8) == 0 ? 2 : roll(&d, 2);
        size_t bytes = roll(&d, 1000);

        struct weft_cache_access want = slow_access(&slow, kind, &key, bytes), got;
        assert_int_equal(access_kind(c, kind, &key, bytes, &got), WEFT_OK);
        assert_int_equal(got.result, want.result);
        assert_int_equal(got.transmitted_bytes, want.transmitted_bytes);
    }

    static uint32_t fifo[MOST];
    assert_memory_equal(weft_cache_stats(c), &slow.stats, sizeof slow.stats);
    assert_int_equal(weft_cache_n_entries(c), slow.n_entries);
    assert_int_equal(weft_cache_micros(c, fifo, MOST), slow.n_fifo);
    assert_memory_equal(fifo, slow.fifo, sizeof fifo[0] * slow.n_fifo);
    for (size_t i = 0; i < slow.n_entries; i++)
        assert_true(weft_cache_contains(c, &slow.entries[i]));

    weft_cache_free(c);
}

static void check_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100000; seed++)
        run_random(seed, (struct extent){120, 8, 12, 3, 60});
    for (uint64_t seed = 0; seed < 300;
         seed++) /* the table grows while entries are added and removed */
        run_random(seed, (struct extent){3000, 64, 100, 20, 1000000});
}

/* -- sizes --------------------------------------------------------------------------------- */

/* Adds, removes and adds again far more entries than the initial table has. */
static void check_many(void **state)
{
    struct weft_cache_settings settings = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES,
                                           true, SIZE_MAX};
    struct weft_cache *c = NULL;
    (void)state;
    assert_int_equal(weft_cache_new(&settings, &c, NULL), WEFT_OK);
    for (uint64_t freshness = 0; freshness < 3; freshness++)
        for (uint32_t i = 0; i < 100000; i++) {
            struct weft_cache_key key = {i % 7, i % 5, i, i % 1000, freshness};
            struct weft_cache_access got;
            assert_int_equal(weft_cache_access_forward(c, &key, 1, &got, NULL), WEFT_OK);
            assert_int_equal(got.result, WEFT_CACHE_RESULT_MISS);
            assert_int_equal(weft_cache_access_backward(c, &key, 1, &got, NULL), WEFT_OK);
            assert_int_equal(got.result, WEFT_CACHE_RESULT_HIT);
        }
    assert_int_equal(weft_cache_n_entries(c), 100000);
    assert_int_equal(weft_cache_micros(c, NULL, 0), 1000);
    assert_int_equal(weft_cache_stats(c)->invalidated_entries, 200000);
    assert_int_equal(weft_cache_stats(c)->cache_hits, 300000);
    weft_cache_free(c);
}

static void fill(struct weft_cache *c, uint64_t freshness, uint32_t micro, uint32_t salt,
                 uint32_t n)
{
    for (uint32_t block = 0; block < n; block++) {
        struct weft_cache_key key = {salt, salt / 2, block, micro, freshness};
        struct weft_cache_access got;
        assert_int_equal(weft_cache_access_forward(c, &key, 1, &got, NULL), WEFT_OK);
        assert_int_equal(got.result, WEFT_CACHE_RESULT_MISS);
    }
    for (uint32_t block = 0; block < n; block++) {
        struct weft_cache_key key = {salt, salt / 2, block, micro, freshness};
        assert_true(weft_cache_contains(c, &key));
    }
}

/* Removes everything when the pool is full, then fills it to all but one item, so
 * that it grows. */
static void check_growth(void **state)
{
    struct weft_cache_settings settings = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES,
                                           true, SIZE_MAX};
    (void)state;
    for (uint32_t salt = 0; salt < 200; salt++)
        for (uint32_t first = 60; first < 65; first++) {
            struct weft_cache *c = NULL;
            assert_int_equal(weft_cache_new(&settings, &c, NULL), WEFT_OK);
            fill(c, 0, 0, salt, first - 1);
            fill(c, 0, 1, salt, 1);
            weft_cache_begin_freshness(c, 1);
            assert_int_equal(weft_cache_n_entries(c), 0);
            fill(c, 1, 0, salt, 64 + salt);
            fill(c, 1, 2, salt, 10);
            assert_int_equal(weft_cache_n_entries(c), 64 + salt + 10);
            assert_int_equal(weft_cache_micros(c, NULL, 0), 2);
            assert_int_equal(weft_cache_stats(c)->invalidated_entries, first);
            weft_cache_free(c);
        }
}

static void check_overflow(void **state)
{
    struct weft_cache_settings settings = weft_cache_defaults();
    struct weft_cache_key key = {.freshness = 4}, other = {.freshness = 5};
    struct weft_cache_access got = {WEFT_CACHE_RESULT_HIT, 77};
    struct weft_error err;
    struct weft_cache *c = NULL;
    uint64_t freshness = 0;

    (void)state;
    settings.enabled = true;
    settings.policy = WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES;
    assert_int_equal(weft_cache_new(&settings, &c, NULL), WEFT_OK);

    assert_int_equal(weft_cache_access_forward(c, &key, SIZE_MAX - 1, &got, &err), WEFT_OK);
    assert_int_equal(weft_cache_access_forward(c, &key, 1, &got, &err), WEFT_OK);
    assert_int_equal(got.result, WEFT_CACHE_RESULT_HIT);

    struct weft_cache_stats before = *weft_cache_stats(c);
    assert_int_equal(before.raw_payload_bytes_requested, SIZE_MAX);
    for (unsigned kind = 0; kind < 3; kind++)
        assert_int_equal(access_kind(c, kind, &other, 1, &got), WEFT_NUMERIC);

    assert_int_equal(weft_cache_access_bypass(c, &other, 1, &got, &err), WEFT_NUMERIC);
    assert_non_null(strstr(err.msg, "sum of requested bytes"));
    assert_memory_equal(weft_cache_stats(c), &before, sizeof before);
    assert_true(weft_cache_freshness(c, &freshness) && freshness == 4);
    assert_true(weft_cache_contains(c, &key));

    assert_int_equal(access_kind(c, 0, &key, 0, &got), WEFT_OK);
    weft_cache_free(c);
    weft_cache_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_scripts),  cmocka_unit_test(check_random),
        cmocka_unit_test(check_many),     cmocka_unit_test(check_growth),
        cmocka_unit_test(check_overflow),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL) != 0;
}
