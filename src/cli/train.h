/* The parts of weft train. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "train/settings.h"
#include "train/trainer.h"
#include "weft/status.h"

/* The model of a run, by its directory or its sizes. */
enum weft_status weft_train_find_model(const struct weft_train_settings *s,
                                       struct weft_model *out, struct weft_error *err);

/* With parallel.auto: chooses the keys of `parallel` that nobody gave, says why, and turns auto
 * off.  comm NULL: ranks are threads, and their number is free.  Collective. */
enum weft_status weft_train_auto(struct weft_train_settings *s, struct weft_comm *comm,
                                 struct weft_error *err);

/* Prints what a run would be. */
enum weft_status weft_train_dry_run(struct weft_train_settings *s, struct weft_error *err);

/* Writes plan.json into log.dir, on rank 0.  Collective. */
enum weft_status weft_train_write_plan(struct weft_comm *comm,
                                       const struct weft_train_settings *s,
                                       const struct weft_trainer_info *info,
                                       struct weft_error *err);

#endif
