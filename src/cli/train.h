/* The parts of weft train. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "train/metrics.h"
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

/* One rank's run, from beginning to end; `settings` are struct weft_train_settings.  Collective. */
enum weft_status weft_train_run_rank(struct weft_comm *comm, void *settings,
                                     struct weft_error *err);

/* -- stopping ------------------------------------------------------------------------------- */

/* From now on the first signal is noted only, and a second one has its usual effect. */
void weft_train_catch_signals(void);
int weft_train_stop_signal(void); /* 0: none came */

/* -- what is seen of it --------------------------------------------------------------------- */

void weft_train_show_head(const struct weft_train_settings *s,
                          const struct weft_trainer_info *i, const char *transport,
                          double peak);

/* `left` is in seconds. */
void weft_train_show_step(const struct weft_metrics_record *r, uint64_t steps, double left,
                          bool pipeline);

#endif
