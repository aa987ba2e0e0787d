/* Schedules as data: who runs what, in which order.
 *
 * P ranks run S stages of a model on M micros.  A schedule is one ordered list of actions for
 * each rank, together with the placement that says which rank holds which stage.  Generators
 * make schedules by name, the text form carries them to and from files, lowering adds the
 * messages, weft/verify.h proves them, weft/timing.h gives every action its start time.
 *
 *     struct weft_gen_params params = {.ranks = 4, .micros = 8};
 *     struct weft_schedule *s = NULL;
 *     if (weft_schedule_generate("1f1b", &params, &s, &err) != WEFT_OK) ...
 *     struct weft_action_span row = weft_schedule_rank(s, 0);
 *     for (size_t i = 0; i < row.len; i++)
 *         use(&row.at[i]);
 *     weft_schedule_free(s);
 *
 * A schedule never changes once it is made, so any number of threads may read it.
 */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/cost.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- actions -------------------------------------------------------------------------------- */

/* The first four are compute, in the order of their numbers in JSON. */
enum weft_act_kind {
    WEFT_ACT_F,           /* forward */
    WEFT_ACT_B,           /* whole backward: input and weight gradient */
    WEFT_ACT_I,           /* input gradient only */
    WEFT_ACT_W,           /* weight gradient only */
    WEFT_ACT_SEND_F,      /* the stage's output goes to the next stage's rank */
    WEFT_ACT_RECV_F,      /* the stage's input comes from the stage before */
    WEFT_ACT_SEND_B,      /* the gradient of the stage's input goes to the stage before */
    WEFT_ACT_RECV_B,      /* the gradient of the stage's output comes from the next stage */
    WEFT_ACT_REDUCE_GRAD, /* the stage's gradients on this rank are complete; no micro */
    WEFT_ACT_UNSHARD, /* PyTorch: gather the stage's parameters; no micro, no meaning here */
    WEFT_ACT_RESHARD, /* PyTorch: drop them again */
    WEFT_ACT_IDLE,    /* an empty cell of a table: a hint, it waits for nothing */
    WEFT_N_ACT_KINDS
};

enum { WEFT_MAX_STAGES = 1 << 24 };

struct weft_action {
    uint32_t micro; /* 0 for the kinds without one */
    uint32_t stage : 24;
    uint32_t kind : 7;
    uint32_t paired : 1; /* runs as one with the next action: an overlapped pair of F and B */
};

struct weft_action_span {
    const struct weft_action *at; /* borrowed: until the schedule is freed */
    size_t len;
};

static inline bool weft_act_is_compute(unsigned kind)
{
    return kind <= WEFT_ACT_W;
}

static inline bool weft_act_is_message(unsigned kind)
{
    return kind >= WEFT_ACT_SEND_F && kind <= WEFT_ACT_RECV_B;
}

static inline bool weft_act_has_micro(unsigned kind)
{
    return kind <= WEFT_ACT_RECV_B;
}

/* "F", "SEND_B", ... */
WEFT_API const char *weft_act_name(unsigned kind);

/* -- placement ------------------------------------------------------------------------------ */

/* Where the stages are.  Most schedules have one pipe: every micro takes the same way.  Two-way
 * schedules have several: micro m takes pipe pipe_of[m], and stage s of pipe p is on rank
 * rank_of[p * n_stages + s].  With M micros over k pipes, pipe j's i-th micro is j*M/k + i.
 */
struct weft_placement {
    uint32_t n_ranks, n_stages, n_micros, n_pipes;
    const uint32_t *rank_of; /* borrowed: (n_pipes, n_stages) */
    const uint16_t *pipe_of; /* borrowed: (n_micros), NULL with one pipe */
};

enum weft_placement_kind {
    WEFT_PLACEMENT_LINEAR,        /* stage s on rank s */
    WEFT_PLACEMENT_LOOP,          /* s mod P */
    WEFT_PLACEMENT_V,             /* down the ranks and back up */
    WEFT_PLACEMENT_WAVE,          /* down and up again and again */
    WEFT_PLACEMENT_BIDIRECTIONAL, /* stages held by two or more ranks */
    WEFT_PLACEMENT_EXPLICIT,      /* any other */
};

static inline uint32_t weft_placement_pipe(const struct weft_placement *p, uint32_t micro)
{
    return p->pipe_of == NULL ? 0 : p->pipe_of[micro];
}

/* The rank that runs (stage, micro). */
static inline uint32_t weft_placement_rank(const struct weft_placement *p, uint32_t stage,
                                           uint32_t micro)
{
    return p->rank_of[(size_t)weft_placement_pipe(p, micro) * p->n_stages + stage];
}

/* Does a rank run a stage of some micro?  Where there are fewer micros than pipes, it may be placed
 * there in vain. */
static inline bool weft_placement_runs(const struct weft_placement *p, uint32_t rank,
                                       uint32_t stage)
{
    for (uint32_t m = 0; m < (p->n_pipes == 1 ? 1 : p->n_micros); m++)
        if (weft_placement_rank(p, stage, m) == rank)
            return true;
    return false;
}

/* "linear", "loop", ... */
WEFT_API const char *weft_placement_name(enum weft_placement_kind kind);

/* -- schedules ------------------------------------------------------------------------------ */

struct weft_schedule; /* opaque: built once, then read-only, safe to read from any thread */

enum weft_minimize {
    WEFT_MINIMIZE_SPAN,     /* the longest own start to own end of a rank */
    WEFT_MINIMIZE_MAKESPAN, /* from 0 to the last end */
};

/* What a generator is given.  Zero means "not given" for all but ranks and micros. */
struct weft_gen_params {
    uint32_t ranks, micros;
    uint32_t chunks;              /* stages a rank; 0: the schedule's own number */
    uint32_t group;               /* interleaved: micros a group, as in Megatron; 0: any M */
    uint32_t pipes;               /* chimera: 2f pipes; 0: 2 */
    const struct weft_cost *cost; /* borrowed, may be NULL: for the schedules that search */
    const struct weft_memory_cost *memory; /* borrowed, may be NULL: likewise */
    enum weft_minimize minimize;           /* likewise */
    bool idle_hints;                       /* keep the empty cells of PyTorch's tables */
};

/* Which of the parameters beyond the sizes a generator uses; the others are refused or, for cost
 * and memory, only used to time and judge the result. */
enum weft_gen_flag {
    WEFT_GEN_USES_CHUNKS = 1, /* any number of chunks; else exactly default_chunks */
    WEFT_GEN_USES_GROUP = 2,
    WEFT_GEN_USES_PIPES = 4,
    WEFT_GEN_USES_COST = 8,   /* it searches: cost, memory and minimize change the order */
    WEFT_GEN_UNIT_TICKS = 16, /* planned in ticks: forward and whole backward take one each */
};

/* One row a schedule: the table behind --list, --help, the errors and the test matrix. */
struct weft_generator {
    const char *name;
    const char *help;   /* one sentence */
    const char *limits; /* which sizes work, in words */
    uint32_t default_chunks;
    unsigned flags; /* of enum weft_gen_flag */
    enum weft_status (*make)(const struct weft_gen_params *params, struct weft_schedule **out,
                             struct weft_error *err);
};

/* All schedules, in the order they are shown. */
WEFT_API const struct weft_generator *weft_generator_list(size_t *n);

/* NULL when there is none of that name. */
WEFT_API const struct weft_generator *weft_generator_find(const char *name);

/* On success the caller owns *out and frees it with weft_schedule_free(). */
WEFT_API enum weft_status weft_schedule_generate(const char *name,
                                                 const struct weft_gen_params *params,
                                                 struct weft_schedule **out,
                                                 struct weft_error *err);
WEFT_API void weft_schedule_free(struct weft_schedule *s); /* NULL is allowed */

WEFT_API const char *
weft_schedule_name(const struct weft_schedule *s); /* "" when it has none */
WEFT_API const struct weft_placement *weft_schedule_placement(const struct weft_schedule *s);
WEFT_API enum weft_placement_kind weft_schedule_placement_kind(const struct weft_schedule *s);
WEFT_API struct weft_action_span weft_schedule_rank(const struct weft_schedule *s,
                                                    uint32_t rank);

/* Actions of all ranks, every kind counted. */
WEFT_API size_t weft_schedule_n_actions(const struct weft_schedule *s);

/* The most stages that a rank holds, and which of its stages (ascending) this one is. */
WEFT_API uint32_t weft_schedule_n_chunks(const struct weft_schedule *s);
WEFT_API uint32_t weft_schedule_chunk(const struct weft_schedule *s, uint32_t rank,
                                      uint32_t stage);

/* True when it has send or receive actions. */
WEFT_API bool weft_schedule_is_lowered(const struct weft_schedule *s);

/* Bytes of memory that the schedule itself takes. */
WEFT_API size_t weft_schedule_bytes(const struct weft_schedule *s);

/* -- lowering ------------------------------------------------------------------------------- */

enum weft_lowering {
    /* A send right after its producer; a receive as late as its consumer and the order of its
     * channel allow; REDUCE_GRAD after a stage's last weight gradient. */
    WEFT_LOWERING_LATE,
    /* As PyTorch's _add_send_recv: both ends at the moment of sending, so that all messages of
     * all ranks have one common order; no REDUCE_GRAD. */
    WEFT_LOWERING_PYTORCH,
};

/* Adds the messages to a schedule that has none.  On every channel (directed pair of ranks and
 * direction of data) both ends list the same sequence.  WEFT_SCHEDULE when a message would have
 * one end only, or, PyTorch's way, when it deadlocks.  The caller owns *out. */
WEFT_API enum weft_status weft_schedule_lower(const struct weft_schedule *s,
                                              enum weft_lowering how,
                                              struct weft_schedule **out,
                                              struct weft_error *err);

/* -- text form ------------------------------------------------------------------------------ */

/* One row a rank, cells by comma: "0F0,0F1,1B0,(0F7;7B3)OVERLAP_F_B", as PyTorch's pipelining
 * reads and writes it.  weft's own files have header lines before the rows:
 *
 *     # weft schedule 1
 *     # weft name zb-v
 *     # weft ranks 2 stages 4 micros 3
 *     # weft placement 0 1 1 0          (one line a pipe)
 */
enum weft_text_format {
    WEFT_TEXT_FORMAT_CSV,     /* with the header lines */
    WEFT_TEXT_FORMAT_PYTORCH, /* rows only */
};

/* The longest text of one action, with its NUL. */
enum { WEFT_ACTION_TEXT_MAX = 40 };

/* Writes "2F0" and returns its length. */
WEFT_API size_t weft_action_print(struct weft_action a, char out[WEFT_ACTION_TEXT_MAX]);

/* The cells of one rank, pairs as one cell, joined by `separator`.  The caller frees *out. */
WEFT_API enum weft_status weft_schedule_print_rank(const struct weft_schedule *s, uint32_t rank,
                                                   const char *separator, char **out,
                                                   struct weft_error *err);

/* The whole schedule.  The caller frees *out; *len may be NULL. */
WEFT_API enum weft_status weft_schedule_print(const struct weft_schedule *s,
                                              enum weft_text_format format, char **out,
                                              size_t *len, struct weft_error *err);

/* Reads either form; both newline styles; blanks around cells; an empty cell is an idle step
 * and is dropped unless `keep_idle`.  Strict otherwise: an error names line and column.
 * `source` is what the error calls the text ("plan.csv").  What is read is well-formed but not
 * yet proven: give it to weft_verify().  The caller owns *out. */
WEFT_API enum weft_status weft_schedule_parse(const char *text, size_t len, const char *source,
                                              bool keep_idle, struct weft_schedule **out,
                                              struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
