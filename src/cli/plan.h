/* Options of the planning commands, and their conversion to the planner's input. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "planning/draw/timeline.h"
#include "planning/planner/costs.h"
#include "planning/planner/plan_text.h"
#include "weft/draw.h"

/* The values of --lower, in the order of enum weft_lowering. */
#define WF_LOWERINGS "weft|torch-2.10|torch-2.15|torch-2.10-late|torch-2.15-late"

struct wf_plan_settings {
    const char *schedule;
    uint32_t ranks, micros, chunks, group, pipes, layers;
    const char *partition, *layers_per_stage;
    const char *model, *layer_cost, *embedding_cost, *head_cost, *bytes_limit;
    uint32_t rows, seq;
    const char *tflops, *recompute;
    const char *cost, *cost_from, *cost_file, *mem, *mem_limit, *minimize;
    const char *cluster, *unit, *bytes, *gradient_bytes, *transfers, *speed;
    bool events, json, list, forward_only;
    const char *for_system, *lower, *format, *output, *color, *export;
    uint32_t width;
};

/* -- input ---------------------------------------------------------------------------------- */

/* Reads --cost, --cost-from, --cost-file, --mem and --mem-limit.  The caller releases the lists
 * with wf_costs_release(), also after a failure, and calls wf_costs_complete(). */
enum weft_status wf_plan_parse_costs(const struct wf_plan_settings *settings,
                                     struct wf_cost_units *units, struct weft_cost *cost,
                                     struct weft_memory_cost *memory, struct weft_error *err);

/* Reads --recompute for a model.  Stores enum weft_recompute of each layer in *out, which the
 * caller frees; NULL if `text` is NULL.  Returns WEFT_USAGE for "auto" and for stages, which are
 * not known before the model is partitioned. */
enum weft_status wf_plan_parse_recompute(const char *text, const struct weft_model *model,
                                         uint8_t **out, struct weft_error *err);

/* The planner's input with the lists that it borrows. */
struct wf_plan_request {
    struct wf_plan_input in;
    struct weft_cost cost;          /* owns its lists */
    struct weft_memory_cost memory; /* owns its lists */
    struct weft_cluster cluster;
    struct weft_sim_options machine; /* owns its lists; may point to `cluster` */
    bool timed;                      /* true if costs have units */
};

/* Checks the options and reads the costs, the model, the partition and the machine.  *out must not
 * be moved afterwards.  The caller releases it with wf_plan_request_release(), also after a
 * failure. */
enum weft_status wf_plan_request_init(struct wf_plan_request *out,
                                      const struct wf_plan_settings *settings,
                                      struct weft_error *err);
void wf_plan_request_release(struct wf_plan_request *r);

/* Adds to the error the option that lists the valid schedules and models. */
void wf_plan_add_hint(const struct wf_plan_settings *s, struct weft_error *err);

/* Checks the options and makes the plan.  A schedule that searches does so for the links and
 * speeds of the machine.  The caller frees *out with wf_plan_release(). */
enum weft_status wf_plan_make(struct wf_plan *out, const struct wf_plan_settings *settings,
                              const struct wf_plan_request *request, struct weft_error *err);

/* -- output --------------------------------------------------------------------------------- */

enum wf_form_kind { WF_FORM_TEXT, WF_FORM_CSV, WF_FORM_JSON, WF_FORM_PICTURE };

struct wf_form {
    enum wf_form_kind kind;
    enum weft_draw_format picture; /* WF_FORM_PICTURE only */
};

/* Chooses the form of the output by --json, --format and the extension of --output: .json is JSON,
 * .trace.json a Chrome trace.  Returns WEFT_USAGE if the extension is not one of `endings` or the
 * options contradict each other. */
enum weft_status wf_form_choose(const struct wf_plan_settings *s, const char *endings,
                                struct wf_form *out, struct weft_error *err);

/* Prints a plan as text: timeline and figures.  `file` is the name printed for a schedule that
 * has no name. */
void wf_plan_print_text(struct wf_text *out, const struct wf_plan *p, const char *file,
                        struct weft_text_style style);

/* Writes collected text to `out` and releases it.  Returns WEFT_NOMEM if the text is
 * incomplete. */
enum weft_status wf_text_flush(struct wf_text *text, FILE *out, struct weft_error *err);

/* Prints a schedule in the format "csv" or "pytorch"; NULL is "csv". */
enum weft_status wf_schedule_print_csv(FILE *out, const struct weft_schedule *s,
                                       const char *format, struct weft_error *err);

/* Draws a plan as a picture, with the times of `m`. */
enum weft_status wf_plan_draw(FILE *out, enum weft_draw_format format, const struct wf_plan *p,
                              const struct weft_metrics *m, uint32_t width,
                              struct weft_error *err);

#endif
