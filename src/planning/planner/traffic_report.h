/* Counts the traffic of residual blocks in one step (totals, links and peak memory), and
 * writes it as JSON and as text. */
#ifndef PLANNING_PLANNER_TRAFFIC_REPORT_H
#define PLANNING_PLANNER_TRAFFIC_REPORT_H

#include "base/json.h"
#include "base/text.h"
#include "weft/traffic.h"

struct wf_traffic_report {
    const struct weft_traffic *table; /* borrowed */
    struct weft_payload payload;
    uint32_t layers_per_block;     /* 0 if blocks do not consist of layers */
    struct weft_traffic_step step; /* owned */
    size_t *peak_bytes;            /* owned: (ranks), peak bytes of cached blocks */
};

/* Reads "off", "received" or "full".  NULL selects "full".  Returns WEFT_USAGE for any other
 * word. */
enum weft_status wf_block_cache_parse(const char *text, enum weft_block_cache *out,
                                      struct weft_error *err);

/* Counts the traffic of one step that runs `s`.  The schedule `s` must have the placement of
 * `table`.  The caller releases *out, and `table` must outlive *out.  Returns WEFT_NUMERIC
 * if a sum overflows. */
enum weft_status wf_traffic_report_init(struct wf_traffic_report *out,
                                        const struct weft_traffic *table,
                                        const struct weft_schedule *s,
                                        struct weft_payload payload, uint32_t layers_per_block,
                                        struct weft_error *err);
void wf_traffic_report_release(struct wf_traffic_report *r);

/* Writes the report as one JSON object.  `key` has the same meaning as for wf_json_begin(). */
void wf_traffic_write_json(struct wf_json *j, const char *key,
                           const struct wf_traffic_report *r);

/* Appends the report as text. */
void wf_traffic_write_text(struct wf_text *out, const struct wf_traffic_report *r);

#endif
