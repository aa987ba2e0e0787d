/* An event file that TensorBoard reads: scalars over steps.
 *
 *     struct wf_tensorboard *tb;
 *     wf_tensorboard_new("run/tensorboard", &tb, &err);
 *     wf_tensorboard_scalar(tb, step, "loss", 3.5, wall_seconds);
 *     wf_tensorboard_flush(tb, &err);          each step: the live view shows what is written
 *     wf_tensorboard_free(tb);
 */
#ifndef TRAINING_RUN_TENSORBOARD_H
#define TRAINING_RUN_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "training/run/metrics.h"
#include "weft/status.h"

struct wf_tensorboard;

/* Makes the directory, and in it a new file events.out.tfevents.<seconds>.<host>.<n>: TensorBoard
 * joins the files of a directory.  wf_tensorboard_free() closes.  Local. */
enum weft_status wf_tensorboard_new(const char *dir, struct wf_tensorboard **out,
                                    struct weft_error *err);
void wf_tensorboard_free(struct wf_tensorboard *tb); /* NULL is allowed */

/* Adds a point; a failure to write is told by the next flush.  A value that is no number is kept
 * as such: TensorBoard marks it. */
void wf_tensorboard_scalar(struct wf_tensorboard *tb, uint64_t step, const char *tag,
                           double value, double wall_seconds);

/* All figures of a step, as loss, grad_norm, lr, tok_s, mfu and bubble. */
void wf_tensorboard_step(struct wf_tensorboard *tb, const struct wf_metrics_record *r,
                         double wall_seconds);

enum weft_status wf_tensorboard_flush(struct wf_tensorboard *tb, struct weft_error *err);

/* -- the form of it: for tests --------------------------------------------------------------- */

/* One record: its length, its bytes, and masked checksums of both. */
void wf_tensorboard_record(FILE *out, const unsigned char *bytes, size_t n);

/* The events of a file, as records.  A wall time of 0 is left out, as protobuf does. */
void wf_tensorboard_put_version(FILE *out, double wall_seconds);
void wf_tensorboard_put_scalar(FILE *out, uint64_t step, const char *tag, double value,
                               double wall_seconds);

#endif
