/* The cross-stage cache of burn_dragon, the reference system, and its traffic count of a plan,
 * reproduced bit for bit so that results can be compared.  weft's own model is in
 * weft/traffic.h.
 *
 * The reference model omits two things.  One tensor per transition represents all block
 * summaries, so the growing list of finished blocks is not counted.  With the cache on, a
 * backward only reads the summary of its forward again, so the gradients are not counted.
 *
 * The cache alone, access by access:
 *
 *     struct weft_cache_settings settings = weft_cache_defaults();
 *     settings.enabled = true;
 *     settings.policy = WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES;
 *     struct weft_cache *c = NULL;
 *     if (weft_cache_new(&settings, &c, &err) != WEFT_OK) ...
 *     struct weft_cache_key key = {.source = 0, .destination = 1, .block = 0, .micro = 3};
 *     struct weft_cache_access access;
 *     weft_cache_access_forward(c, &key, 4096, &access, &err);
 *     use(weft_cache_stats(c)->cache_misses);
 *     weft_cache_free(c);
 *
 * A whole plan: weft_ref_traffic_compute().
 *
 * Unstable: follows the reference system.
 */
#ifndef WEFT_CACHE_H
#define WEFT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/part.h"
#include "weft/schedule.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- settings ------------------------------------------------------------------------------ */

enum weft_cache_policy {
    WEFT_CACHE_POLICY_DISABLED,
    WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES,
};

/* The cache is on if `enabled` is set and the policy is not "disabled". */
struct weft_cache_settings {
    bool enabled;
    enum weft_cache_policy policy;
    bool reuse_across_backward; /* false: a backward bypasses the cache */
    /* Maximum number of micro-batches with entries, over all ranks; 0 means 1. */
    size_t max_inflight_micros;
};

/* Returns the defaults: off, policy "disabled", reuse on, 1 micro. */
WEFT_API struct weft_cache_settings weft_cache_defaults(void);

/* Returns the name of a policy: "disabled" or "resident_block_summaries". */
WEFT_API const char *weft_cache_policy_name(enum weft_cache_policy policy);

/* -- the cache ----------------------------------------------------------------------------- */

struct weft_cache; /* opaque; used by one thread at a time */

/* The summary of a block that one rank sends to another, for one micro-batch.  `freshness` is a
 * version number, for example the optimizer step.  Entries with a different freshness are
 * stale. */
struct weft_cache_key {
    uint32_t source, destination, block, micro;
    uint64_t freshness;
};

enum weft_cache_result {
    WEFT_CACHE_RESULT_HIT,    /* the summary is in the cache: nothing is sent */
    WEFT_CACHE_RESULT_MISS,   /* the summary is sent and added to the cache */
    WEFT_CACHE_RESULT_BYPASS, /* sent without the cache */
};

struct weft_cache_access {
    enum weft_cache_result result;
    size_t transmitted_bytes;
};

/* A bypass counts as a miss.  An access that would make a sum of bytes exceed SIZE_MAX fails.
 * The other fields count accesses and entries and cannot overflow. */
struct weft_cache_stats {
    size_t raw_payload_bytes_requested;
    size_t payload_bytes_transmitted;
    size_t cache_hits, cache_misses;
    size_t resend_count_avoided;
    size_t backward_reuse_hits;
    size_t invalidated_entries; /* entries that were stale or evicted */
};

/* Creates an empty cache.  The caller owns *out and frees it with weft_cache_free(). */
WEFT_API enum weft_status weft_cache_new(const struct weft_cache_settings *settings,
                                         struct weft_cache **out, struct weft_error *err);

/* Frees a cache.  NULL is allowed. */
WEFT_API void weft_cache_free(struct weft_cache *c);

/* Drops all entries if `freshness` differs from the current freshness, whether it is newer or
 * older.  Every access calls this function first. */
WEFT_API void weft_cache_begin_freshness(struct weft_cache *c, uint64_t freshness);

/* Requests `bytes` in a forward.  A miss creates an entry.  If the micro-batch has no entry yet
 * and max_inflight_micros other micro-batches have entries, the cache evicts all entries of the
 * micro-batch that got its first entry earliest.  A hit does not change the eviction order.
 *
 * Constant time on average.  Returns WEFT_NUMERIC if a sum of bytes would overflow, or
 * WEFT_NOMEM; the cache is then unchanged. */
WEFT_API enum weft_status weft_cache_access_forward(struct weft_cache *c,
                                                    const struct weft_cache_key *key,
                                                    size_t bytes, struct weft_cache_access *out,
                                                    struct weft_error *err);

/* Requests `bytes` in a backward.  The behavior is otherwise that of
 * weft_cache_access_forward(). */
WEFT_API enum weft_status
weft_cache_access_backward(struct weft_cache *c, const struct weft_cache_key *key, size_t bytes,
                           struct weft_cache_access *out, struct weft_error *err);

/* Counts `bytes` as sent without the cache.  Errors are those of
 * weft_cache_access_forward(). */
WEFT_API enum weft_status weft_cache_access_bypass(struct weft_cache *c,
                                                   const struct weft_cache_key *key,
                                                   size_t bytes, struct weft_cache_access *out,
                                                   struct weft_error *err);

/* Returns the counters of all accesses so far.  The pointer is borrowed. */
WEFT_API const struct weft_cache_stats *weft_cache_stats(const struct weft_cache *c);

/* Stores the current freshness in *out.  Returns false before the first access. */
WEFT_API bool weft_cache_freshness(const struct weft_cache *c, uint64_t *out);

/* Returns the number of entries. */
WEFT_API size_t weft_cache_n_entries(const struct weft_cache *c);

/* Returns true if the cache has an entry for `key`. */
WEFT_API bool weft_cache_contains(const struct weft_cache *c, const struct weft_cache_key *key);

/* Returns the number of micro-batches with entries and writes the first `capacity` of these
 * micro-batch numbers to `out`, oldest first. */
WEFT_API size_t weft_cache_micros(const struct weft_cache *c, uint32_t *out, size_t capacity);

/* -- the traffic of a plan ----------------------------------------------------------------- */

enum weft_ref_traffic_mode {
    WEFT_REF_TRAFFIC_ACTIVATION_TENSOR, /* activations and gradients, no cache */
    /* Both directions use the cache key of the forward. */
    WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
};

/* Returns the name of a mode: "activation_tensor" or "block_residual_cache". */
WEFT_API const char *weft_ref_traffic_mode_name(enum weft_ref_traffic_mode mode);

struct weft_ref_traffic_settings {
    enum weft_ref_traffic_mode mode;
    struct weft_cache_settings cache;
    /* Block number of a transition: the sender's last layer / layers_per_block. */
    uint32_t layers_per_block;
    size_t payload_bytes; /* bytes of one transfer */
    bool trace;           /* record the result of each event */
};

/* The traffic of a schedule.  The field names are those of the reference system, where a stage
 * is what weft calls a rank. */
struct weft_ref_traffic {
    struct weft_cache_stats cache;
    size_t forward_transfer_requests, backward_transfer_requests;
    uint32_t n_ranks;
    size_t *stage_transmitted_bytes; /* owned: (ranks), by sender */
    size_t bytes_saved;              /* bytes that were requested but not transmitted */
    float cache_hit_rate;            /* hits / (hits + misses), in single precision */
    size_t n_events;                 /* compute actions of the schedule */
    char *trace; /* owned: one letter per event, '-' no transfer, 'h' hit, 'm' miss, 'b' bypass;
                    NUL-terminated; NULL unless requested */
};

/* Counts the traffic of a schedule in the reference model.  The compute actions are processed
 * by tick, then rank: every action takes one tick (an overlapped pair two), results are
 * available at the next tick, and messages in the schedule are ignored.  For greedy-gpipe and
 * greedy-1f1b this order is the plan of the reference system.  A separate weight gradient
 * transfers nothing.
 *
 * `s` must pass weft_verify(), and every stage of `p` must have a layer.  Returns WEFT_USAGE if
 * sizes do not match, WEFT_NUMERIC if a sum of bytes overflows, and WEFT_SCHEDULE if the
 * schedule deadlocks.  The time is linear in the actions for one pipe without pairs in which
 * every stage processes its micro-batches in order; the events of other schedules are sorted.
 * The caller releases *out. */
WEFT_API enum weft_status
weft_ref_traffic_compute(const struct weft_schedule *s, const struct weft_partition *p,
                         const struct weft_ref_traffic_settings *settings,
                         struct weft_ref_traffic *out, struct weft_error *err);

/* Frees the arrays of a count.  A zeroed count is allowed. */
WEFT_API void weft_ref_traffic_release(struct weft_ref_traffic *c);

#ifdef __cplusplus
}
#endif

#endif
