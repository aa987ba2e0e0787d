/* Chooses the layout of a run with parallel.auto: measures a few micro-batches on this machine,
 * compares all layouts by these times, and stores the best one in the settings. */
#ifndef TRAINING_LAYOUT_CHOOSE_H
#define TRAINING_LAYOUT_CHOOSE_H

#include "training/layout/auto.h"
#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/status.h"

/* The reasons for a choice, for example to print them. */
struct wf_layout_choice {
    /* measured, in ascending order of threads */
    struct wf_auto_profile profiles[WF_AUTO_MAX_PROFILES];
    size_t n_profiles;
    double seconds;                       /* seconds spent on measuring and comparing */
    struct wf_auto_candidates candidates; /* owned: the chosen layout first */
    /* value of parallel.micros before the choice; less than the current value if it was
     * raised */
    uint32_t default_micros;
    char *old_schedule; /* owned: candidates may borrow it */
};

/* Chooses the keys of `parallel` that are not given (pp, dp, chunks, schedule, threads), stores
 * them in *s and sets parallel.auto to false.  Raises parallel.micros, which changes the
 * results, only if it is not given and no layout can run otherwise.
 *
 * If comm is NULL, ranks are threads of this process, and their number is also chosen.
 * Otherwise all ranks measure, and rank 0 chooses.
 *
 * Fills *out on rank 0; on other ranks *out has no candidates.  The caller releases *out after
 * success and after failure.  Returns WEFT_USAGE if no layout can run, and WEFT_NOMEM if no
 * layout fits into memory.  Collective. */
enum weft_status wf_layout_choose(struct wf_train_settings *s, const struct weft_model *model,
                                  struct weft_comm *comm, struct wf_layout_choice *out,
                                  struct weft_error *err);
void wf_layout_choice_release(struct wf_layout_choice *choice); /* a zeroed struct is allowed */

/* Stores the best candidate for each combination of pp, dp and threads in the list, the chosen
 * candidate first: up to `max` borrowed pointers.  Candidates with the same combination and
 * another schedule are omitted, since they differ little.  Returns the number of pointers. */
size_t wf_layout_choice_divisions(const struct wf_layout_choice *choice,
                                  const struct wf_auto_candidate **out, size_t max);

#endif
