/* The parts of weft train. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "base/cores.h"
#include "cli/bar.h"
#include "training/layout/topology.h"
#include "training/run/metrics.h"
#include "training/settings/settings.h"
#include "training/trainer/rank_totals.h"
#include "training/trainer/trainer.h"
#include "weft/status.h"
#include "weft/traffic.h"

/* With parallel.auto: chooses the keys of `parallel` that nobody gave, says why, and turns auto
 * off.  comm NULL: ranks are threads, and their number is free.  Otherwise all ranks first compare
 * their settings, auto or not.  Collective. */
enum weft_status wf_train_auto(struct wf_train_settings *s, struct weft_comm *comm,
                               struct weft_error *err);

/* Prints what a run would be. */
enum weft_status wf_train_dry_run(struct wf_train_settings *s, struct weft_error *err);

/* WEFT_NOMEM when the ranks of this process need more than the machine has.  Local. */
enum weft_status wf_train_check_memory(const struct wf_train_settings *s,
                                       struct weft_error *err);

/* Writes plan.json into log.dir, on rank 0.  Collective. */
enum weft_status wf_train_write_plan(struct weft_comm *comm, const struct wf_train_settings *s,
                                     const struct wf_trainer_info *info,
                                     struct weft_error *err);

/* What the pipeline of the first replica sends in a step; the caller releases *out. */
enum weft_status wf_train_count_links(const struct wf_topology *l, enum weft_block_cache cache,
                                      struct weft_traffic_step *out, struct weft_error *err);

/* One rank's run, from beginning to end; `settings` are struct wf_train_settings.  Collective. */
enum weft_status wf_train_run_rank(struct weft_comm *comm, void *settings,
                                   struct weft_error *err);

/* `cores` are those that this rank may use.  All measure at once, as they will work; *out is filled
 * on rank 0.  Collective. */
enum weft_status wf_train_ask_ranks(struct weft_comm *comm, const struct wf_trainer *trainer,
                                    const struct wf_cores *cores, struct wf_rank_totals *out,
                                    struct weft_error *err);

/* -- stopping ------------------------------------------------------------------------------- */

/* From now on the first signal is noted only, and a second one has its usual effect.  On a terminal
 * they leave no half line behind. */
void wf_train_catch_signals(void);
int wf_train_stop_signal(void); /* 0: none came, or only when all was done */
void wf_train_is_over(void);    /* all steps are made */

/* -- what is seen of it: on rank 0 ---------------------------------------------------------- */

struct wf_train_show {
    const struct wf_train_settings *settings; /* borrowed */
    struct wf_bar bar;
    uint64_t every; /* steps from one line that stays to the next */
    bool pipeline;
};

/* Where a bar is shown, if anywhere. */
struct wf_bar wf_train_bar(void);

struct wf_train_show wf_train_show_make(const struct wf_train_settings *settings,
                                        bool pipeline);

void wf_train_show_head(const struct wf_train_show *show, const struct wf_trainer_info *i,
                        const char *transport, const struct wf_rank_totals *ranks);

/* How far a run is, before its first step. */
void wf_train_show_begin(struct wf_train_show *show, uint64_t done);

/* A step that is done; `left` is in seconds. */
void wf_train_show_step(struct wf_train_show *show, const struct wf_metrics_record *r,
                        double left);

/* A line, and a warning: "weft: warning: ...". */
void wf_train_show_line(struct wf_train_show *show, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void wf_train_show_warning(struct wf_train_show *show, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Of a run that ended before its last step: how it goes on from the checkpoint of step `saved`, or,
 * when that is 0, what there is of it. */
void wf_train_show_rest(const struct wf_train_show *show, uint32_t n_ranks, uint64_t saved,
                        bool has_weights);

/* Nothing but lines from now on. */
void wf_train_show_end(struct wf_train_show *show);

#endif
