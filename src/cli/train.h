/* The parts of weft train. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "train/settings.h"
#include "train/trainer.h"
#include "weft/status.h"

/* Prints what a run would be. */
enum weft_status weft_train_dry_run(const struct weft_train_settings *s,
                                    struct weft_error *err);

/* Writes plan.json into log.dir, on rank 0.  Collective. */
enum weft_status weft_train_write_plan(struct weft_comm *comm,
                                       const struct weft_train_settings *s,
                                       const struct weft_trainer_info *info,
                                       struct weft_error *err);

#endif
