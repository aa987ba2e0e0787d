/* An event file that TensorBoard reads: scalars over steps.
 *
 *     struct weft_tensorboard *tb;
 *     weft_tensorboard_new("run/tensorboard", &tb, &err);
 *     weft_tensorboard_scalar(tb, step, "loss", 3.5, wall_seconds);
 *     weft_tensorboard_flush(tb, &err);          each step: the live view shows what is written
 *     weft_tensorboard_free(tb);
 */
#ifndef TRAINING_RUN_TENSORBOARD_H
#define TRAINING_RUN_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "training/run/metrics.h"
#include "weft/status.h"

struct weft_tensorboard;

/* Makes the directory, and in it a new file events.out.tfevents.<seconds>.<host>.<n>: TensorBoard
 * joins the files of a directory.  weft_tensorboard_free() closes.  Local. */
enum weft_status weft_tensorboard_new(const char *dir, struct weft_tensorboard **out,
                                      struct weft_error *err);
void weft_tensorboard_free(struct weft_tensorboard *tb); /* NULL is allowed */

/* Adds a point; a failure to write is told by the next flush.  A value that is no number is kept
 * as such: TensorBoard marks it. */
void weft_tensorboard_scalar(struct weft_tensorboard *tb, uint64_t step, const char *tag,
                             double value, double wall_seconds);

/* All figures of a step, as loss, grad_norm, lr, tok_s, mfu and bubble. */
void weft_tensorboard_step(struct weft_tensorboard *tb, const struct weft_metrics_record *r,
                           double wall_seconds);

enum weft_status weft_tensorboard_flush(struct weft_tensorboard *tb, struct weft_error *err);

/* -- the form of it: for tests --------------------------------------------------------------- */

uint32_t weft_crc32c(const void *bytes, size_t n);

/* One record: its length, its bytes, and masked checksums of both. */
void weft_tensorboard_record(FILE *out, const unsigned char *bytes, size_t n);

/* The events of a file, as records.  A wall time of 0 is left out, as protobuf does. */
void weft_tensorboard_put_version(FILE *out, double wall_seconds);
void weft_tensorboard_put_scalar(FILE *out, uint64_t step, const char *tag, double value,
                                 double wall_seconds);

#endif
