/* Writes metrics.jsonl: one JSON object per line and step, appended and flushed after each
 * step, so that a killed run keeps the lines of all its steps.
 *
 *     {"step":1,"loss":4.87,"grad_norm":1.08,"lr":0.0003,"tokens":192,"ms":12.5,"tok_s":15360,
 *      "mfu":0.34,"bubble":0,"bubble_plan":0}        and "val_loss" after evaluations
 *
 * Numbers are printed exactly.  "tokens" counts the tokens of the step. */
#ifndef TRAINING_RUN_METRICS_H
#define TRAINING_RUN_METRICS_H

#include <stdint.h>

#include "weft/status.h"

struct wf_metrics_record {
    uint64_t step; /* number of the step, counted from 1 */
    double loss, grad_norm, lr;
    uint64_t tokens;
    double ms, tok_s;
    /* flop/s of the model divided by the peak flop/s of the machine */
    double mfu;
    /* idle fraction of the time of all ranks: measured and planned */
    double bubble, bubble_plan;
    double val_loss; /* loss on validation data after the step; 0: not evaluated */
};

/* Sets tok_s and mfu from tokens and ms. */
void wf_metrics_rates(struct wf_metrics_record *r, double token_flops, double peak_flops);

struct wf_metrics_log;

/* Opens the file for appending.  wf_metrics_log_free() closes it.  Local. */
enum weft_status wf_metrics_log_new(const char *path, struct wf_metrics_log **out,
                                    struct weft_error *err);

/* Appends one line.  Local. */
enum weft_status wf_metrics_log_add(struct wf_metrics_log *log,
                                    const struct wf_metrics_record *r, struct weft_error *err);
void wf_metrics_log_free(struct wf_metrics_log *log); /* NULL is allowed */

#endif
