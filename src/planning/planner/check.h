/* Checks a schedule file: reads it, adds messages if it has none, and proves that the
 * schedule completes with a given channel model. */
#ifndef PLANNING_PLANNER_CHECK_H
#define PLANNING_PLANNER_CHECK_H

#include "base/json.h"
#include "weft/verify.h"

enum wf_check_channels {
    WF_CHECK_CHANNELS_OF_FILE, /* PyTorch's for rows without a header, else weft's */
    WF_CHECK_CHANNELS_DIRECTION,
    WF_CHECK_CHANNELS_PAIR,
};

/* What is checked, and with which channels. */
struct wf_check_options {
    size_t depth; /* of every channel, in messages */
    enum wf_check_channels channels;
    /* the messages to add if the file has none; borrowed; NULL: those of the system whose form
     * the file has */
    const char *lowering;
    bool for_torch; /* also apply the rules of PyTorch's runtime */
};

struct wf_check {
    const char *file; /* borrowed */
    struct weft_channel_model channels;
    bool channels_assumed;       /* true if the form of the file determined `channels` */
    enum weft_lowering lowering; /* of `lowered` */
    /* Whether the schedule is also correct if the channels are those of the other system, and
     * if not, the first finding. */
    bool other_ok;
    char other_finding[200];
    bool for_torch;
    struct weft_torch_report torch;
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
 * messages and then with the messages of a lowering.  Findings are part of the result, not
 * errors.  Returns WEFT_SCHEDULE if the file is not a schedule, and WEFT_USAGE if a lowering is
 * given for a file with messages.  The caller releases *out
 * with wf_check_release(). */
enum weft_status wf_check_init(struct wf_check *out, const char *file,
                               const struct wf_check_options *options, struct weft_error *err);
void wf_check_release(struct wf_check *c); /* `c` may be zeroed */

/* Returns the schedule to which the result applies: the lowered one if it exists. */
const struct weft_schedule *wf_check_schedule(const struct wf_check *c);

/* Returns the first reason why the schedule must not be used, or NULL if there is none. */
const char *wf_check_failure(const struct wf_check *c);

/* Returns WEFT_SCHEDULE with the reason if PyTorch's runtime would refuse a schedule or run it
 * with wrong results. */
enum weft_status wf_torch_require(const struct weft_schedule *s, struct weft_error *err);

/* Returns "refused", "wrong" or "note". */
const char *wf_torch_severity_name(enum weft_torch_severity severity);

/* Returns the number of findings stored in the result. */
size_t wf_check_n_findings(const struct wf_check *c);

/* Finds the smallest channel depth with which a deadlocked schedule completes: 0 if there is no
 * deadlock or if no depth avoids it. */
enum weft_status wf_check_enough_depth(const struct wf_check *c, size_t *out,
                                       struct weft_error *err);

/* Writes the result as a JSON object.  `transport` is the name of the channel model. */
void wf_check_write_json(struct wf_json *j, const struct wf_check *c, const char *transport);

/* Writes the JSON object of a file for which wf_check_init() returned WEFT_SCHEDULE. */
void wf_check_write_error_json(struct wf_json *j, const char *file,
                               const struct weft_error *why);

#endif
