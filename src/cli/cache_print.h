/* The reference system's cache model, as `weft simulate --cache-model reference` reads and prints
 * it. */
#ifndef CLI_CACHE_PRINT_H
#define CLI_CACHE_PRINT_H

#include "base/json.h"
#include "base/text.h"
#include "weft/cache.h"

/* Reads "enabled=1,policy=resident_block_summaries,reuse=1,inflight=8".  A key at most once; what
 * is not there keeps its default: off, disabled, reuse, 1.  NULL and "" are all defaults. */
enum weft_status weft_cache_settings_parse(const char *text, struct weft_cache_settings *out,
                                           struct weft_error *err);

/* One object, with the reference system's names for its keys.  `key` as for weft_json_begin(). */
void weft_communication_print_json(struct weft_json *j, const char *key,
                                   const struct weft_communication *c);

void weft_communication_print_text(struct weft_text *out, const struct weft_communication *c);

#endif
