/* All ranks have the same program and the same settings: else what they exchange makes no sense. */
#ifndef TRAINING_TRAINER_HANDSHAKE_H
#define TRAINING_TRAINER_HANDSHAKE_H

#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/status.h"

/* Before anything else is exchanged.  What a rank may have of its own is left out: threads.
 * WEFT_USAGE on all ranks, with the rank and the line that differs.  Collective. */
enum weft_status wf_handshake_settings(struct weft_comm *comm,
                                       const struct wf_train_settings *s,
                                       struct weft_error *err);

#endif
