/* Options of the planning commands, and their conversion to the planner's input. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "planning/draw/timeline.h"
#include "planning/planner/plan.h"
#include "weft/draw.h"

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

/* Reads --cost, --cost-from, --cost-file, --mem and --mem-limit.  The caller releases the lists
 * with wf_costs_release(), also after a failure. */
enum weft_status wf_plan_parse_costs(const struct wf_plan_settings *settings,
                                     struct weft_cost *cost, struct weft_memory_cost *memory,
                                     struct weft_error *err);

/* Reads --layer-cost, --embedding-cost and --head-cost.  Each text may be NULL. */
enum weft_status wf_plan_parse_items(const char *layer, const char *embedding, const char *head,
                                     struct weft_item items[3], struct weft_error *err);

/* Parses a number from 0 to `max`.  If `text` is NULL, *out stays unchanged. */
enum weft_status wf_option_number(const char *text, const char *what, double max, double *out,
                                  struct weft_error *err);

/* Returns the duration of --unit in seconds; `text` is "s", "ms" or "us", and NULL means
 * "ms". */
double wf_option_unit(const char *text);

/* Checks the options and makes the plan.  The caller frees *out with wf_plan_release(). */
enum weft_status wf_plan_make(struct wf_plan *out, const struct wf_plan_settings *settings,
                              struct weft_error *err);

/* Prints a plan as text: timeline and figures.  `file` is the name printed for a schedule that
 * has no name. */
void wf_plan_print_text(struct wf_text *out, const struct wf_plan *p, const char *file,
                        struct weft_text_style style);

/* Writes collected text to `out` and releases it.  Returns WEFT_NOMEM if the text is
 * incomplete. */
enum weft_status wf_text_flush(struct wf_text *text, FILE *out, struct weft_error *err);

/* Prints a schedule in the format "csv" or "pytorch". */
enum weft_status wf_schedule_print_csv(FILE *out, const struct weft_schedule *s,
                                       const char *format, struct weft_error *err);

/* Draws a timed schedule as a picture.  `unit_seconds` is the length of a time unit; 0 means
 * abstract time. */
enum weft_status wf_plan_draw(FILE *out, enum weft_draw_format format,
                              const struct weft_schedule *s, const struct weft_metrics *m,
                              const struct weft_memory_cost *memory, double unit_seconds,
                              uint32_t width, struct weft_error *err);

#endif
