/* Writes event files for TensorBoard: scalars over steps.
 *
 *     struct wf_tensorboard *tb;
 *     wf_tensorboard_new("run/tensorboard", first_step, &tb, &err);
 *     wf_tensorboard_scalar(tb, step, "loss", 3.5, wf_tensorboard_now());
 *     wf_tensorboard_flush(tb, &err);          after each step, for the live view
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

/* Makes the directory and a new file events.out.tfevents.<seconds>.<nanoseconds>.<host>... in it.
 * TensorBoard merges all files of a directory in the order of their names.  The file starts with
 * an event that makes TensorBoard discard the points of `first_step` and later steps in earlier
 * files, because these steps run again.  wf_tensorboard_free() closes the file.  Local. */
enum weft_status wf_tensorboard_new(const char *dir, uint64_t first_step,
                                    struct wf_tensorboard **out, struct weft_error *err);
void wf_tensorboard_free(struct wf_tensorboard *tb); /* NULL is allowed */

/* Returns the wall time in seconds since 1970, with the resolution of the clock. */
double wf_tensorboard_now(void);

/* Adds a point.  Write errors are reported by the next wf_tensorboard_flush().  Non-finite
 * values are written unchanged; TensorBoard marks them. */
void wf_tensorboard_scalar(struct wf_tensorboard *tb, uint64_t step, const char *tag,
                           double value, double wall_seconds);

/* Adds the points loss, grad_norm, lr, tok_s, mfu and bubble of a step. */
void wf_tensorboard_step(struct wf_tensorboard *tb, const struct wf_metrics_record *r,
                         double wall_seconds);

/* Writes all points to the file.  Local. */
enum weft_status wf_tensorboard_flush(struct wf_tensorboard *tb, struct weft_error *err);

/* -- the format, for tests --------------------------------------------------------------- */

/* Writes one record: its length, its bytes, and masked checksums of both. */
void wf_tensorboard_record(FILE *out, const unsigned char *bytes, size_t n);

/* Write one event each: the version, the start of a session at a step, or a scalar.  A wall time
 * of 0 is omitted, as in protobuf. */
void wf_tensorboard_put_version(FILE *out, double wall_seconds);
void wf_tensorboard_put_start(FILE *out, uint64_t step, double wall_seconds);
void wf_tensorboard_put_scalar(FILE *out, uint64_t step, const char *tag, double value,
                               double wall_seconds);

#endif
