/* The traffic of residual blocks, as `weft simulate --residual-block-layers K` prints it. */
#ifndef CLI_TRAFFIC_PRINT_H
#define CLI_TRAFFIC_PRINT_H

#include "base/json.h"
#include "base/text.h"
#include "weft/traffic.h"

/* Everything that is printed, worked out before anything is. */
struct wf_traffic_report {
    const struct weft_traffic *table; /* borrowed */
    struct weft_payload payload;
    uint32_t layers_per_block;     /* 0 when the blocks do not come from layers */
    struct weft_traffic_step step; /* owned */
    size_t *peak_bytes;            /* owned: (ranks) */
};

/* "off", "received", "full"; NULL: full. */
enum weft_status wf_block_cache_parse(const char *text, enum weft_block_cache *out,
                                      struct weft_error *err);

/* `s` is what runs: it must have the placement that `table` was made for.  The caller releases
 * *out; `table` must outlive it. */
enum weft_status wf_traffic_report_init(struct wf_traffic_report *out,
                                        const struct weft_traffic *table,
                                        const struct weft_schedule *s,
                                        struct weft_payload payload, uint32_t layers_per_block,
                                        struct weft_error *err);
void wf_traffic_report_release(struct wf_traffic_report *r);

/* One object.  `key` as for wf_json_begin(). */
void wf_traffic_print_json(struct wf_json *j, const char *key,
                           const struct wf_traffic_report *r);

void wf_traffic_print_text(struct wf_text *out, const struct wf_traffic_report *r);

#endif
