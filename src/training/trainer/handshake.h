/* Checks that all ranks run the same program with the same settings. */
#ifndef TRAINING_TRAINER_HANDSHAKE_H
#define TRAINING_TRAINER_HANDSHAKE_H

#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/status.h"

/* Compares the program and the settings of all ranks; only parallel.threads may differ.  Call
 * this function before any other exchange.  If ranks differ, returns WEFT_USAGE on all ranks,
 * with the rank and the line that differs.  Collective. */
enum weft_status wf_handshake_settings(struct weft_comm *comm,
                                       const struct wf_train_settings *s,
                                       struct weft_error *err);

#endif
