/* Proof that a schedule is correct, whether it was generated or read from a file.
 *
 *     struct weft_verify_result result;
 *     if (weft_verify(s, NULL, &result, &err) != WEFT_OK) ...     // out of memory
 *     if (result.n_findings > 0)
 *         puts(result.findings[0].text);
 *     weft_verify_result_release(&result);
 *
 * A schedule without findings runs every (stage, micro) once forward and once backward and
 * never deadlocks.  A schedule without any backward is forward-only (weft/schedule.h): it runs
 * every (stage, micro) once forward.  If only some backwards are missing, each is a finding.
 * In a lowered schedule, both endpoints of every channel also list the same sequence of
 * messages, and the given channel model delivers all of them.  Time and memory are linear in
 * the number of actions.
 */
#ifndef WEFT_VERIFY_H
#define WEFT_VERIFY_H

#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, name in JSON, description */
#define WEFT_RULE_MAP(X)                                                                       \
    X(MISSING, "missing", "a required action is missing")                                      \
    X(DUPLICATE, "duplicate", "an action is listed twice")                                     \
    X(MIXED, "mixed", "a whole and a split backward for the same stage and micro")             \
    X(ORDER, "order", "an action is listed before an action that it needs on its rank")        \
    X(RANK, "rank", "one stage and micro on two ranks")                                        \
    X(MESSAGE, "message", "a send or receive that no action needs")                            \
    X(CHANNEL, "channel", "the two endpoints of a channel list different sequences")           \
    X(WAIT, "wait", "a send or a reduction without exactly one wait after it")                 \
    X(DEADLOCK, "deadlock", "ranks wait for each other in a cycle")

enum weft_rule {
#define WEFT_RULE_ENUM(name, json, text) WEFT_RULE_##name,
    WEFT_RULE_MAP(WEFT_RULE_ENUM)
#undef WEFT_RULE_ENUM
};

/* Returns the name of a rule in JSON, such as "missing". */
WEFT_API const char *weft_rule_name(enum weft_rule rule);

/* The behavior of channels.  A channel has space for `depth` messages; a send to a full channel
 * blocks.  Depth 0 is rendezvous: a send waits until the receiver reaches the receive. */
struct weft_channel_model {
    size_t depth;
    bool by_pair; /* forward and backward data between two ranks share one queue */
};

/* A depth at which a send never blocks. */
#define WEFT_CHANNEL_BUFFERED SIZE_MAX

enum { WEFT_MAX_FINDINGS = 64 };

struct weft_finding {
    enum weft_rule rule;
    bool has_position; /* rank and position are set */
    /* text + detail is the text without the position with which it may start, such as "rank 1,
     * action 7: ". */
    uint8_t detail;
    uint32_t rank;
    /* Index in the rank's list; the length of the list means after the last action. */
    size_t position;
    char text[200];
};

/* One rank of a deadlock: it is blocked at `action` and waits for `for_action` of
 * `for_rank`. */
struct weft_wait {
    uint32_t rank, for_rank;
    size_t position;
    struct weft_action action, for_action;
};

struct weft_verify_result {
    size_t n_findings; /* total number of findings; the first WEFT_MAX_FINDINGS are stored */
    struct weft_finding *findings; /* owned */
    size_t n_cycle;
    struct weft_wait *cycle; /* owned: the cycle of a deadlock */
    uint32_t n_ranks;
    size_t *peak_activations; /* owned: (ranks), counted in program order */
    size_t n_compute, n_messages, n_channels;
};

/* Verifies a schedule and reports all violations in *out.  Returns WEFT_OK even if the schedule
 * is incorrect; out->n_findings is then not 0.  If `model` is NULL, channels are buffered.  The
 * caller releases *out. */
WEFT_API enum weft_status weft_verify(const struct weft_schedule *s,
                                      const struct weft_channel_model *model,
                                      struct weft_verify_result *out, struct weft_error *err);

/* Frees the arrays of a result.  A zeroed result is allowed. */
WEFT_API void weft_verify_result_release(struct weft_verify_result *r);

/* -- PyTorch ------------------------------------------------------------------------------- */

enum weft_torch_severity {
    WEFT_TORCH_SEVERITY_REFUSED, /* PyTorch's runtime refuses the schedule */
    WEFT_TORCH_SEVERITY_WRONG,   /* it runs the schedule without an error, with wrong results */
    WEFT_TORCH_SEVERITY_NOTE,    /* a fact that users should know */
};

enum { WEFT_MAX_TORCH_FINDINGS = 8 };

struct weft_finding_place {
    uint32_t rank;
    size_t position; /* in the rank's list */
};

struct weft_torch_finding {
    enum weft_torch_severity severity;
    bool has_place;
    struct weft_finding_place place;
    char text[200];
};

struct weft_torch_report {
    size_t n;
    struct weft_torch_finding at[WEFT_MAX_TORCH_FINDINGS];
};

/* Reports how the pipeline runtime of PyTorch (2.10 to 2.15) treats a schedule.  The schedule
 * must be correct; PyTorch has one channel per directed pair of ranks, so verify it with
 * `by_pair`.  Covers what weft_verify() does not: stages on several ranks, losses out of order,
 * missing reductions, and the release that a lowered schedule is for. */
WEFT_API void weft_torch_check(const struct weft_schedule *s, struct weft_torch_report *out);

#ifdef __cplusplus
}
#endif

#endif
