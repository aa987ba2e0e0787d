/* Rotary position embedding: the angles of positions. */
#ifndef COMPUTE_MODEL_ROPE_H
#define COMPUTE_MODEL_ROPE_H

#include <stddef.h>

#include "weft/spec.h"

/* Writes the cosines and sines of positions 0 .. n - 1: (n, head / 2) each. */
void wf_rope_fill(const struct weft_model *model, size_t n, float *cosines, float *sines);

#endif
