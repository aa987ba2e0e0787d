/* The proof that a schedule is right: generated, or read from a file.
 *
 *     struct weft_verify_result report;
 *     if (weft_verify(s, NULL, &report, &err) != WEFT_OK) ...     // no memory
 *     if (report.n_findings > 0)
 *         puts(report.findings[0].text);
 *     weft_verify_result_release(&report);
 *
 * A schedule without findings runs every (stage, micro) once forward and once back, in an order
 * in which no rank waits for ever; with messages, both ends of every channel list the same
 * sequence, and the transport that was named gets it through.  Time and memory are linear.
 */
#ifndef WEFT_VERIFY_H
#define WEFT_VERIFY_H

#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name in JSON, what is broken */
#define WEFT_RULE_MAP(X)                                                                       \
    X(MISSING, "missing", "an action that must be there is not")                               \
    X(DUPLICATE, "duplicate", "an action is there twice")                                      \
    X(MIXED, "mixed", "a whole backward and a split one for the same stage and micro")         \
    X(ORDER, "order", "an action stands before what it needs on its own rank")                 \
    X(RANK, "rank", "one stage and micro on two ranks")                                        \
    X(MESSAGE, "message", "a send or receive that nobody needs")                               \
    X(CHANNEL, "channel", "the two ends of a channel list different sequences")                \
    X(DEADLOCK, "deadlock", "ranks wait for each other in a circle")

enum weft_rule {
#define WEFT_RULE_ENUM(name, json, text) WEFT_RULE_##name,
    WEFT_RULE_MAP(WEFT_RULE_ENUM)
#undef WEFT_RULE_ENUM
};

WEFT_API const char *weft_rule_name(enum weft_rule rule);

/* How sends behave: a channel holds `depth` messages, then a send blocks its rank.  Depth 0 is
 * rendezvous: a send waits until the receiver stands at the receive. */
struct weft_channel_model {
    size_t depth;
    bool by_pair; /* forward and backward data of two ranks share one queue */
};

#define WEFT_CHANNEL_BUFFERED SIZE_MAX

enum { WEFT_MAX_FINDINGS = 64 };

struct weft_finding {
    enum weft_rule rule;
    bool has_position; /* rank and position mean something */
    uint32_t rank;
    size_t position; /* in the rank's list; its length: behind the last action */
    char text[200];
};

/* One rank of a deadlock: it stands at `action` and waits for `for_action` of the next one. */
struct weft_wait {
    uint32_t rank, for_rank;
    size_t position;
    struct weft_action action, for_action;
};

struct weft_verify_result {
    size_t n_findings; /* of all that were found; at most WEFT_MAX_FINDINGS are kept */
    struct weft_finding *findings; /* owned */
    size_t n_cycle;
    struct weft_wait *cycle; /* owned: a deadlock's circle */
    uint32_t n_ranks;
    size_t *peak_activations; /* owned: (ranks), in program order */
    size_t n_compute, n_messages, n_channels;
};

/* `transport` may be NULL: buffered.  On success the caller releases *out, which says whether
 * the schedule is right. */
WEFT_API enum weft_status weft_verify(const struct weft_schedule *s,
                                      const struct weft_channel_model *transport,
                                      struct weft_verify_result *out, struct weft_error *err);
WEFT_API void weft_verify_result_release(struct weft_verify_result *r);

#ifdef __cplusplus
}
#endif

#endif
