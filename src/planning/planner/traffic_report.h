/* The traffic of residual blocks in one step: totals, links and peak memory, and their JSON form. */
#ifndef PLANNING_PLANNER_TRAFFIC_REPORT_H
#define PLANNING_PLANNER_TRAFFIC_REPORT_H

#include "base/json.h"
#include "weft/traffic.h"

struct wf_traffic_report {
    const struct weft_traffic *table; /* borrowed */
    struct weft_payload payload;
    uint32_t layers_per_block;     /* 0: the blocks are not made of layers */
    struct weft_traffic_step step; /* owned */
    size_t *peak_bytes;            /* owned: (ranks), cached blocks */
};

/* Reads "off", "received" or "full"; NULL selects "full".  Returns WEFT_USAGE for other
 * words. */
enum weft_status wf_block_cache_parse(const char *text, enum weft_block_cache *out,
                                      struct weft_error *err);

/* Counts the traffic of a step that runs `s`, which must have the placement of `table`.  The
 * caller releases *out; `table` must outlive it.  Returns WEFT_NUMERIC if a sum overflows. */
enum weft_status wf_traffic_report_init(struct wf_traffic_report *out,
                                        const struct weft_traffic *table,
                                        const struct weft_schedule *s,
                                        struct weft_payload payload, uint32_t layers_per_block,
                                        struct weft_error *err);
void wf_traffic_report_release(struct wf_traffic_report *r);

/* Writes one object.  `key` is as for wf_json_begin(). */
void wf_traffic_write_json(struct wf_json *j, const char *key,
                           const struct wf_traffic_report *r);

#endif
