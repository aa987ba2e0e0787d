/* Stored weights into a model. */
#ifndef TRAIN_LOAD_H
#define TRAIN_LOAD_H

#include "ckpt/weights.h"
#include "model/infer.h"
#include "model/stage.h"

/* All weights of the whole model are there under their names, and no others.  Local. */
enum weft_status weft_load_check(const struct weft_weights *w,
                                 const struct weft_param_list *params, struct weft_error *err);

/* The values of one parameter.  Local. */
enum weft_status weft_load_param(const struct weft_weights *w, const struct weft_param_desc *d,
                                 float *out, struct weft_error *err);

/* Every weight of a stage that is a whole model, and packs them.  Local. */
enum weft_status weft_load_stage(const struct weft_weights *w, struct weft_tstage *stage,
                                 struct weft_error *err);

enum weft_status weft_load_infer(const struct weft_weights *w, struct weft_infer *m,
                                 struct weft_error *err);

#endif
