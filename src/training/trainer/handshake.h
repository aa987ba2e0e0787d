/* Checks that all ranks run the same program with the same settings. */
#ifndef TRAINING_TRAINER_HANDSHAKE_H
#define TRAINING_TRAINER_HANDSHAKE_H

#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/status.h"

/* Compares program and settings of all ranks; parallel.threads may differ.  Call it before any other
 * exchange.  Returns WEFT_USAGE on all ranks, with the rank and the line that differs.
 * Collective. */
enum weft_status wf_handshake_settings(struct weft_comm *comm,
                                       const struct wf_train_settings *s,
                                       struct weft_error *err);

#endif
