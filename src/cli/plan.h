/* What `weft plan` builds: one plan from its settings. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include <stdio.h>

#include "base/json.h"
#include "planning/draw/timeline.h"
#include "weft/part.h"
#include "weft/timing.h"
#include "weft/verify.h"

struct wf_plan_settings {
    const char *schedule;
    uint32_t ranks, micros, chunks, group, pipes, layers;
    const char *partition, *layers_per_stage;
    const char *model, *layer_cost, *embedding_cost, *head_cost, *bytes_limit;
    uint32_t rows, seq;
    const char *cost, *cost_from, *cost_file, *mem, *mem_limit, *minimize;
    bool lower, events, json, list;
    const char *lower_like, *format, *output, *color;
    uint32_t width;
};

struct wf_plan {
    struct weft_schedule *schedule; /* owned */
    struct weft_schedule *lowered;  /* owned; NULL unless asked for */
    struct weft_cost cost;          /* its lists are owned */
    struct weft_memory_cost memory; /* likewise */
    struct weft_items items;
    struct weft_partition partition;
    struct weft_metrics metrics;
    struct weft_verify_result report;
    size_t *rank_bytes;  /* owned: (ranks), state and activations; NULL when items have none */
    size_t *state_bytes; /* owned: (ranks), of those: weights, gradients, optimizer */
    bool costs_by_layer; /* the stages' times were given, or follow from their layers */
    const char *file;    /* borrowed: where the schedule was read from, or NULL */
    bool by_ticks;
};

/* --cost, --mem and --mem-limit.  On failure the lists may be held: release them in any case. */
enum weft_status wf_plan_parse_costs(const struct wf_plan_settings *settings,
                                     struct weft_cost *cost, struct weft_memory_cost *memory,
                                     struct weft_error *err);

/* The mean times of a measured trace, or of the last one in a run's directory, in its own unit.  The
 * lists are the caller's. */
enum weft_status wf_plan_measured_costs(const char *path, struct weft_cost *cost,
                                        struct weft_error *err);

/* "F=1,I=1,W=1,bytes=..,act=.." on top of what the item has; NULL changes nothing. */
enum weft_status wf_plan_parse_item(const char *text, const char *what, struct weft_item *item,
                                    struct weft_error *err);

/* Makes, verifies and times the plan.  The caller releases *out. */
enum weft_status wf_plan_init(struct wf_plan *out, const struct wf_plan_settings *settings,
                              struct weft_error *err);
void wf_plan_release(struct wf_plan *p);

/* The printed forms. */
enum weft_status wf_plan_print_json(FILE *out, const struct wf_plan *p, bool events,
                                    struct weft_error *err);
/* The object "metrics"; rank_bytes may be NULL. */
void wf_plan_put_metrics(struct wf_json *j, const struct weft_metrics *m,
                         const size_t *rank_bytes);

void wf_plan_print_text(struct wf_text *out, const struct wf_plan *p,
                        struct wf_text_style style);

#endif
