/* Checks a schedule file: reads it, adds messages if it has none, and proves it for a channel
 * model. */
#ifndef PLANNING_PLANNER_CHECK_H
#define PLANNING_PLANNER_CHECK_H

#include "base/json.h"
#include "weft/verify.h"

struct wf_check {
    const char *file; /* borrowed */
    struct weft_channel_model channels;
    struct weft_schedule *read;       /* owned: as in the file */
    struct weft_schedule *lowered;    /* owned: with messages added; NULL if it had them */
    struct weft_verify_result result; /* of wf_check_schedule() */
};

/* Reads "buffered" (also NULL), "rendezvous" or "depth=N".  Returns WEFT_USAGE for other texts;
 * `what` begins the message. */
enum weft_status wf_channel_depth_parse(const char *text, const char *what, size_t *depth,
                                        struct weft_error *err);

/* Reads and proves a file.  A schedule without messages is proven as it is, and then with the
 * messages of `lowering`.  Findings are part of the result.  Returns WEFT_SCHEDULE if the file
 * is not a schedule.  wf_check_release() frees. */
enum weft_status wf_check_init(struct wf_check *out, const char *file,
                               const struct weft_channel_model *channels,
                               enum weft_lowering lowering, struct weft_error *err);
void wf_check_release(struct wf_check *c); /* a zeroed one is allowed */

/* Returns the schedule that the result is about. */
const struct weft_schedule *wf_check_schedule(const struct wf_check *c);

/* Returns the number of findings that the result keeps. */
size_t wf_check_n_findings(const struct wf_check *c);

/* Returns the smallest depth of channels with which a deadlocked schedule completes; 0 if there is
 * no deadlock or no depth helps. */
size_t wf_check_enough_depth(const struct wf_check *c);

/* Writes the result as a JSON object; `transport` is the channel model as text. */
void wf_check_write_json(struct wf_json *j, const struct wf_check *c, const char *transport);

#endif
