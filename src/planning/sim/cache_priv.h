/* Interpretation of cache settings, shared by the cache and the reference's traffic count. */
#ifndef PLANNING_SIM_CACHE_PRIV_H
#define PLANNING_SIM_CACHE_PRIV_H

#include "weft/cache.h"

/* Returns true if the settings enable the cache. */
static inline bool wf_cache_is_on(const struct weft_cache_settings *s)
{
    return s->enabled && s->policy != WEFT_CACHE_POLICY_DISABLED;
}

/* Returns the maximum number of micros in the cache.  The value 0 in the settings means 1. */
static inline size_t wf_cache_max_micros(const struct weft_cache_settings *s)
{
    return s->max_inflight_micros == 0 ? 1 : s->max_inflight_micros;
}

#endif
