/* Checks a schedule file: reads it, adds messages if it has none, and proves that the
 * schedule completes with a given channel model. */
#ifndef PLANNING_PLANNER_CHECK_H
#define PLANNING_PLANNER_CHECK_H

#include "base/json.h"
#include "weft/verify.h"

struct wf_check {
    const char *file; /* borrowed */
    struct weft_channel_model channels;
    struct weft_schedule *read; /* owned: the schedule as it is in the file */
    /* owned: the schedule with added messages; NULL if the file has messages */
    struct weft_schedule *lowered;
    struct weft_verify_result result; /* verification result of wf_check_schedule() */
};

/* Reads a channel depth: "buffered", "rendezvous" or "depth=N".  NULL means "buffered".
 * Returns WEFT_USAGE for any other text.  `what` is the first part of the error message. */
enum weft_status wf_channel_depth_parse(const char *text, const char *what, size_t *depth,
                                        struct weft_error *err);

/* Reads and proves a schedule file.  A schedule without messages is proven first without
 * messages and then with the messages of `lowering`.  Findings are part of the result, not
 * errors.  Returns WEFT_SCHEDULE if the file is not a schedule.  The caller releases *out
 * with wf_check_release(). */
enum weft_status wf_check_init(struct wf_check *out, const char *file,
                               const struct weft_channel_model *channels,
                               enum weft_lowering lowering, struct weft_error *err);
void wf_check_release(struct wf_check *c); /* `c` may be zeroed */

/* Returns the schedule to which the result applies: the lowered one if it exists. */
const struct weft_schedule *wf_check_schedule(const struct wf_check *c);

/* Returns the number of findings stored in the result. */
size_t wf_check_n_findings(const struct wf_check *c);

/* Returns the smallest channel depth with which a deadlocked schedule completes.  Returns 0
 * if there is no deadlock or if no depth avoids it. */
size_t wf_check_enough_depth(const struct wf_check *c);

/* Writes the result as a JSON object.  `transport` is the name of the channel model. */
void wf_check_write_json(struct wf_json *j, const struct wf_check *c, const char *transport);

#endif
