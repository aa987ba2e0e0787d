/* The reference system's cache model, as `weft simulate --cache-model reference` reads and prints
 * it. */
#ifndef CLI_CACHE_PRINT_H
#define CLI_CACHE_PRINT_H

#include "base/json.h"
#include "base/text.h"
#include "weft/cache.h"

/* Reads "enabled=1,policy=resident_block_summaries,reuse=1,inflight=8".  A key at most once; what
 * is not there keeps its default: off, disabled, reuse, 1.  NULL and "" are all defaults. */
enum weft_status wf_cache_settings_parse(const char *text, struct weft_cache_settings *out,
                                         struct weft_error *err);

/* One object, with the reference system's names for its keys.  `key` as for wf_json_begin(). */
void wf_communication_print_json(struct wf_json *j, const char *key,
                                 const struct weft_ref_traffic *c);

void wf_communication_print_text(struct wf_text *out, const struct weft_ref_traffic *c);

#endif
