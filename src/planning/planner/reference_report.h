/* Reads the settings of the reference system's cache model from text, and writes its counts
 * as JSON and as text. */
#ifndef PLANNING_PLANNER_REFERENCE_REPORT_H
#define PLANNING_PLANNER_REFERENCE_REPORT_H

#include "base/json.h"
#include "base/text.h"
#include "weft/cache.h"

/* Reads settings such as "enabled=1,policy=resident_block_summaries,reuse=1,inflight=8".
 * Each key may occur at most once.  The defaults of missing keys are enabled=0,
 * policy=disabled, reuse=1 and inflight=1.  NULL and "" select all defaults.  Returns
 * WEFT_USAGE if the text is malformed. */
enum weft_status wf_cache_settings_parse(const char *text, struct weft_cache_settings *out,
                                         struct weft_error *err);

/* Writes the counts as one JSON object with the key names of the reference system.  `key`
 * has the same meaning as for wf_json_begin(). */
void wf_ref_traffic_write_json(struct wf_json *j, const char *key,
                               const struct weft_ref_traffic *c);

/* Appends the counts as text. */
void wf_ref_traffic_write_text(struct wf_text *out, const struct weft_ref_traffic *c);

#endif
