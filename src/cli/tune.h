/* The options of weft tune, and the commands that reproduce its results. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "cli/plan.h"
#include "planning/planner/tune_report.h"
#include "weft/tune.h"

struct wf_tune_settings {
    struct wf_plan_settings plan; /* must be the first field: the shared options write to it */
    uint32_t iterations, seed, global_batch, max_chunks, top;
    bool whole;
    const char *placement, *seconds, *boundary_bytes;
};

/* Returns the objective; the default of weft tune is the makespan. */
static inline enum weft_minimize wf_tune_minimize(const struct wf_tune_settings *s)
{
    bool span = s->plan.minimize != NULL && s->plan.minimize[0] == 's';
    return span ? WEFT_MINIMIZE_SPAN : WEFT_MINIMIZE_MAKESPAN;
}

/* Both functions append the command that simulates the best result.  They append nothing if it is
 * an order that is not written to a CSV file and the search has a time limit. */
void wf_tune_print_command(struct wf_text *out, const struct wf_tune_settings *s,
                           struct wf_form form);
void wf_layouts_print_command(struct wf_text *out, const struct wf_tune_settings *s,
                              const struct wf_plan_request *request,
                              const struct weft_layout *best, struct wf_form form);

#endif
