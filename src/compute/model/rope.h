/* Rotary position embedding: cosines and sines of the rotation angles. */
#ifndef COMPUTE_MODEL_ROPE_H
#define COMPUTE_MODEL_ROPE_H

#include <stddef.h>

#include "weft/spec.h"

/* Writes the cosines and sines of the angles of positions 0 .. n - 1.  Both arrays have the
 * shape (n, head / 2). */
void wf_rope_fill(const struct weft_model *model, size_t n, float *cosines, float *sines);

#endif
