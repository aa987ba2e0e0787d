/* The cross-stage cache of burn_dragon, the reference system, and its count of a plan's traffic, to
 * the bit: for those who come from there and compare.  weft's own model is in weft/traffic.h.
 *
 * That model leaves two things out.  One tensor a transition stands for all block summaries, so
 * the growing list of finished blocks is not counted; and with the cache on, a backward only
 * reads the summary of its forward again, so the gradients that must travel are not counted.
 *
 * The cache alone, access by access:
 *
 *     struct weft_cache_settings settings = weft_cache_defaults();
 *     settings.enabled = true;
 *     settings.policy = WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES;
 *     struct weft_cache *c = NULL;
 *     if (weft_cache_new(&settings, &c, &err) != WEFT_OK) ...
 *     struct weft_cache_key key = {.source = 0, .destination = 1, .block = 0, .micro = 3};
 *     struct weft_cache_access got;
 *     weft_cache_access_forward(c, &key, 4096, &got, &err);
 *     use(weft_cache_stats(c)->cache_misses);
 *     weft_cache_free(c);
 *
 * A whole plan: weft_ref_traffic_compute().
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

/* -- settings ------------------------------------------------------------------------------- */

enum weft_cache_policy {
    WEFT_CACHE_POLICY_DISABLED,
    WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES,
};

/* The cache is on when `enabled` and the policy is not "disabled". */
struct weft_cache_settings {
    bool enabled;
    enum weft_cache_policy policy;
    bool reuse_across_backward; /* else a backward passes the cache by */
    size_t max_inflight_micros; /* micros with entries at once, over all ranks; 0 counts as 1 */
};

/* Off, "disabled", reuse, 1 micro. */
WEFT_API struct weft_cache_settings weft_cache_defaults(void);

/* "disabled", "resident_block_summaries" */
WEFT_API const char *weft_cache_policy_name(enum weft_cache_policy policy);

/* -- the cache ------------------------------------------------------------------------------ */

struct weft_cache; /* opaque; one thread at a time */

/* What is cached: a block's summary that went from one rank to another, for one micro.  Entries
 * of another freshness (an optimizer step, say) are stale. */
struct weft_cache_key {
    uint32_t source, destination, block, micro;
    uint64_t freshness;
};

enum weft_cache_result {
    WEFT_CACHE_RESULT_HIT,    /* it was there: nothing is sent */
    WEFT_CACHE_RESULT_MISS,   /* it is sent, and there from now on */
    WEFT_CACHE_RESULT_BYPASS, /* it is sent, and the cache took no part */
};

struct weft_cache_access {
    enum weft_cache_result result;
    size_t transmitted_bytes;
};

/* A bypass counts as a miss.  The sums of bytes are checked: an access that would take one past
 * SIZE_MAX is refused.  The other counters count accesses and entries and cannot get there. */
struct weft_cache_stats {
    size_t raw_payload_bytes_requested;
    size_t payload_bytes_transmitted;
    size_t cache_hits, cache_misses;
    size_t resend_count_avoided;
    size_t backward_reuse_hits;
    size_t invalidated_entries; /* dropped by another freshness or to make room */
};

/* On success the caller owns *out and frees it with weft_cache_free(). */
WEFT_API enum weft_status weft_cache_new(const struct weft_cache_settings *settings,
                                         struct weft_cache **out, struct weft_error *err);
WEFT_API void weft_cache_free(struct weft_cache *c); /* NULL is allowed */

/* Drops all entries when `freshness` is not the current one, whether newer or older.  Every
 * access does this first. */
WEFT_API void weft_cache_begin_freshness(struct weft_cache *c, uint64_t freshness);

/* A miss makes an entry; when the micro has none yet and max_inflight_micros others have, the
 * one that got its first entry first loses all of its own.  A hit makes nothing younger.
 *
 * Constant time on average, whatever the settings.  WEFT_NUMERIC when a sum of bytes would
 * overflow, WEFT_NOMEM; then nothing has changed. */
WEFT_API enum weft_status weft_cache_access_forward(struct weft_cache *c,
                                                    const struct weft_cache_key *key,
                                                    size_t bytes, struct weft_cache_access *out,
                                                    struct weft_error *err);
WEFT_API enum weft_status
weft_cache_access_backward(struct weft_cache *c, const struct weft_cache_key *key, size_t bytes,
                           struct weft_cache_access *out, struct weft_error *err);
WEFT_API enum weft_status weft_cache_access_bypass(struct weft_cache *c,
                                                   const struct weft_cache_key *key,
                                                   size_t bytes, struct weft_cache_access *out,
                                                   struct weft_error *err);

WEFT_API const struct weft_cache_stats *weft_cache_stats(const struct weft_cache *c);

/* False before the first access. */
WEFT_API bool weft_cache_freshness(const struct weft_cache *c, uint64_t *out);

WEFT_API size_t weft_cache_n_entries(const struct weft_cache *c);
WEFT_API bool weft_cache_contains(const struct weft_cache *c, const struct weft_cache_key *key);

/* How many micros have entries; the first `room` of them, oldest first, are written to out. */
WEFT_API size_t weft_cache_micros(const struct weft_cache *c, uint32_t *out, size_t room);

/* -- the traffic of a plan ------------------------------------------------------------------ */

enum weft_ref_traffic_mode {
    WEFT_REF_TRAFFIC_ACTIVATION_TENSOR, /* activations forward, gradients backward, no cache */
    WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE, /* both directions ask the cache for the forward's key */
};

/* "activation_tensor", "block_residual_cache" */
WEFT_API const char *weft_ref_traffic_mode_name(enum weft_ref_traffic_mode mode);

struct weft_ref_traffic_settings {
    enum weft_ref_traffic_mode mode;
    struct weft_cache_settings cache;
    uint32_t layers_per_block; /* a transition's block: the sender's last layer by this many */
    size_t payload_bytes;      /* of one transfer */
    bool trace;                /* note what became of each event */
};

/* Names as the reference system reports them; its stages are our ranks here. */
struct weft_ref_traffic {
    struct weft_cache_stats cache;
    size_t forward_transfer_requests, backward_transfer_requests;
    uint32_t n_ranks;
    size_t *stage_transmitted_bytes; /* owned: (ranks), by who sends */
    size_t bytes_saved;              /* requested and not transmitted */
    float cache_hit_rate;            /* hits by hits and misses, in single precision */
    size_t n_events;                 /* compute actions of the schedule */
    char *trace; /* owned: a letter an event, '-' no transfer, 'h' hit, 'm' miss, 'b' bypass;
                    NUL-terminated; NULL unless asked for */
};

/* Runs through the schedule's compute actions in the order of ticks, then ranks: every action
 * takes one tick (an overlapped pair two), results are there at the next tick, and messages in
 * the schedule are passed over.  For greedy-gpipe and greedy-1f1b that is the reference system's
 * plan.  A weight gradient on its own transfers nothing.
 *
 * `s` must be a schedule that weft_verify() accepts; every stage of `p` needs a layer.
 * WEFT_USAGE for sizes that do not fit, WEFT_NUMERIC when the bytes do not fit a size_t,
 * WEFT_SCHEDULE when the schedule deadlocks.  Linear in the actions where there is one pipe, no
 * pair, and every stage takes its micros in order; the events of others are sorted.  The caller
 * releases *out. */
WEFT_API enum weft_status
weft_ref_traffic_compute(const struct weft_schedule *s, const struct weft_partition *p,
                         const struct weft_ref_traffic_settings *settings,
                         struct weft_ref_traffic *out, struct weft_error *err);
WEFT_API void
weft_ref_traffic_release(struct weft_ref_traffic *c); /* a zeroed one is allowed */

#ifdef __cplusplus
}
#endif

#endif
