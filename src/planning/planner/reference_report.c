/* Reads the settings of the reference cache model, and writes its counts as JSON. */
#include "planning/planner/reference_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"

/* -- settings ------------------------------------------------------------------------------- */

/* A part of the settings text, not NUL-terminated. */
struct text_piece {
    const char *at;
    size_t len;
};

static bool is_word(struct text_piece p, const char *word)
{
    return p.len == strlen(word) && memcmp(p.at, word, p.len) == 0;
}

static enum weft_status read_bool(struct text_piece value, const char *key, bool *out,
                                  struct weft_error *err)
{
    if (!is_word(value, "0") && !is_word(value, "1"))
        return WEFT_FAIL(err, WEFT_USAGE, "cache: invalid value %s=%.*s; give 0 or 1", key,
                         (int)value.len, value.at);
    *out = value.at[0] == '1';
    return WEFT_OK;
}

static enum weft_status read_policy(struct text_piece value, enum weft_cache_policy *out,
                                    struct weft_error *err)
{
    for (int p = WEFT_CACHE_POLICY_DISABLED; p <= WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES;
         p++)
        if (is_word(value, weft_cache_policy_name((enum weft_cache_policy)p))) {
            *out = (enum weft_cache_policy)p;
            return WEFT_OK;
        }
    return WEFT_FAIL(err, WEFT_USAGE,
                     "cache: unknown policy=%.*s; give disabled or resident_block_summaries",
                     (int)value.len, value.at);
}

static enum weft_status read_count(struct text_piece value, size_t *out, struct weft_error *err)
{
    char *end = NULL;
    bool digits = value.len > 0 && strspn(value.at, "0123456789") >= value.len;
    errno = 0;
    unsigned long long n = digits ? strtoull(value.at, &end, 10) : 0;
    if (!digits || errno != 0 || n > SIZE_MAX)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "cache: invalid value inflight=%.*s; give a whole number",
                         (int)value.len, value.at);
    *out = (size_t)n;
    return WEFT_OK;
}

static enum weft_status read_pair(struct text_piece key, struct text_piece value,
                                  unsigned *seen, struct weft_cache_settings *out,
                                  struct weft_error *err)
{
    static const char *const keys[] = {"enabled", "policy", "reuse", "inflight"};
    unsigned k = 0;
    while (k < WEFT_LEN(keys) && !is_word(key, keys[k]))
        k++;
    if (k == WEFT_LEN(keys))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "cache: unknown key \"%.*s\"; use enabled, policy, reuse and inflight",
                         (int)key.len, key.at);
    if ((*seen & 1U << k) != 0)
        return WEFT_FAIL(err, WEFT_USAGE, "cache: %s is given twice", keys[k]);
    *seen |= 1U << k;
    switch (k) {
    case 0:
        return read_bool(value, keys[k], &out->enabled, err);
    case 1:
        return read_policy(value, &out->policy, err);
    case 2:
        return read_bool(value, keys[k], &out->reuse_across_backward, err);
    }
    return read_count(value, &out->max_inflight_micros, err);
}

enum weft_status wf_cache_settings_parse(const char *text, struct weft_cache_settings *out,
                                         struct weft_error *err)
{
    struct weft_cache_settings settings = weft_cache_defaults();
    unsigned seen = 0;
    const char *at = text == NULL ? "" : text;
    while (*at != '\0') {
        size_t len = strcspn(at, ","), key = strcspn(at, "=,");
        if (key == len)
            return WEFT_FAIL(err, WEFT_USAGE, "cache: \"%.*s\" is not of the form key=value",
                             (int)len, at);
        WEFT_TRY(read_pair((struct text_piece){at, key},
                           (struct text_piece){at + key + 1, len - key - 1}, &seen, &settings,
                           err));
        at += len;
        if (at[0] == ',' && at[1] == '\0')
            return WEFT_FAIL(err, WEFT_USAGE, "cache: nothing after the last comma");
        at += at[0] == ',';
    }
    *out = settings;
    return WEFT_OK;
}

/* -- JSON ----------------------------------------------------------------------------------- */

/* Returns the double with the fewest decimal digits that converts to the float `value`. */
static double shortest(float value)
{
    char text[WF_NUMBER_CHARS];
    wf_number_print_float(value, text);
    return strtod(text, NULL);
}

void wf_ref_traffic_write_json(struct wf_json *j, const char *key,
                               const struct weft_ref_traffic *c)
{
    uint32_t bits;
    memcpy(&bits, &c->cache_hit_rate, sizeof bits);
    wf_json_begin(j, key, '{');
    wf_json_uint(j, "raw_payload_bytes_requested", c->cache.raw_payload_bytes_requested);
    wf_json_uint(j, "payload_bytes_transmitted", c->cache.payload_bytes_transmitted);
    wf_json_uint(j, "cache_hits", c->cache.cache_hits);
    wf_json_uint(j, "cache_misses", c->cache.cache_misses);
    wf_json_uint(j, "resend_count_avoided", c->cache.resend_count_avoided);
    wf_json_uint(j, "backward_reuse_hits", c->cache.backward_reuse_hits);
    wf_json_uint(j, "invalidated_entries", c->cache.invalidated_entries);
    wf_json_uint(j, "forward_transfer_requests", c->forward_transfer_requests);
    wf_json_uint(j, "backward_transfer_requests", c->backward_transfer_requests);
    wf_json_begin(j, "stage_transmitted_bytes", '[');
    for (uint32_t r = 0; r < c->n_ranks; r++)
        wf_json_uint(j, NULL, c->stage_transmitted_bytes[r]);
    wf_json_end(j, ']');
    wf_json_uint(j, "bytes_saved", c->bytes_saved);
    wf_json_number(j, "cache_hit_rate", shortest(c->cache_hit_rate));
    wf_json_uint(j, "cache_hit_rate_bits", bits);
    if (c->trace != NULL)
        wf_json_string(j, "trace", c->trace);
    wf_json_end(j, '}');
}

void wf_ref_traffic_write_text(struct wf_text *out, const struct weft_ref_traffic *c)
{
    enum { MAX_SHOWN = 16 };
    const struct weft_cache_stats *s = &c->cache;
    wf_text_addf(out, "requests          %zu forward, %zu backward\n",
                 c->forward_transfer_requests, c->backward_transfer_requests);
    wf_text_addf(out, "bytes             %zu requested, %zu sent, %zu saved\n",
                 s->raw_payload_bytes_requested, s->payload_bytes_transmitted, c->bytes_saved);
    wf_text_addf(out,
                 "cache             %zu hits (%zu backward), %zu misses, hit rate %.1f%%\n",
                 s->cache_hits, s->backward_reuse_hits, s->cache_misses,
                 100 * (double)c->cache_hit_rate);
    wf_text_addf(out, "entries dropped   %zu\n", s->invalidated_entries);
    wf_text_adds(out, "sent by rank     ");
    for (uint32_t r = 0; r < c->n_ranks && r < MAX_SHOWN; r++)
        wf_text_addf(out, " %zu", c->stage_transmitted_bytes[r]);
    wf_text_adds(out, c->n_ranks > MAX_SHOWN ? " ...\n" : "\n");
}
