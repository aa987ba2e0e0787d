/* The cache model of the reference system: its settings as text, and its counts as JSON. */
#ifndef PLANNING_PLANNER_REFERENCE_REPORT_H
#define PLANNING_PLANNER_REFERENCE_REPORT_H

#include "base/json.h"
#include "weft/cache.h"

/* Reads "enabled=1,policy=resident_block_summaries,reuse=1,inflight=8".  Each key may occur
 * once; missing keys keep their defaults: 0, disabled, 1, 1.  NULL and "" select all defaults.
 * Returns WEFT_USAGE if the text is malformed. */
enum weft_status wf_cache_settings_parse(const char *text, struct weft_cache_settings *out,
                                         struct weft_error *err);

/* Writes one object with the key names of the reference system.  `key` is as for
 * wf_json_begin(). */
void wf_ref_traffic_write_json(struct wf_json *j, const char *key,
                               const struct weft_ref_traffic *c);

#endif
