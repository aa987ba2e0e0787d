/* Measurements on which the choice of a layout is based. */
#ifndef TRAINING_LAYOUT_CHOOSE_PRIV_H
#define TRAINING_LAYOUT_CHOOSE_PRIV_H

#include "training/layout/auto.h"

struct wf_layout_measurement {
    struct wf_auto_probe probe;
    struct wf_auto_machine machine; /* machine.profiles points to `profiles` */
    struct wf_auto_profile profiles[WF_AUTO_MAX_PROFILES];
    int64_t begin_ns;
};

/* Measures the machine.  With a communicator, all ranks measure, and only rank 0 receives the
 * complete result.  Collective. */
enum weft_status wf_layout_measure(struct wf_layout_measurement *m,
                                   const struct wf_train_settings *s,
                                   const struct weft_model *model, struct weft_comm *comm,
                                   struct weft_error *err);

/* Multiplies the times of forward and backward passes by `factor`. */
void wf_layout_scale_passes(struct wf_auto_profile *profile, double factor);

#endif
