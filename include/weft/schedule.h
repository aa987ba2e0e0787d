/* Schedules as data: the actions of each rank, in order.
 *
 * P ranks run S stages of a model on M micro-batches.  A schedule is one ordered list of
 * actions per rank and a placement of stages on ranks.  Generators create schedules by name.
 * The text form stores them in files.  Lowering adds the messages.  weft/verify.h proves a
 * schedule, and weft/timing.h computes the start time of every action.
 *
 *     struct weft_gen_params params = {.ranks = 4, .micros = 8};
 *     struct weft_schedule *s = NULL;
 *     if (weft_schedule_generate("1f1b", &params, &s, &err) != WEFT_OK) ...
 *     struct weft_action_span row = weft_schedule_rank(s, 0);
 *     for (size_t i = 0; i < row.len; i++)
 *         use(&row.at[i]);
 *     weft_schedule_free(s);
 *
 * A schedule never changes after it is created, so any number of threads may read it.
 *
 * Functions that return a property of a schedule need a schedule: NULL is not allowed.
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

/* -- actions ------------------------------------------------------------------------------- */

/* The kinds of actions.  The first four kinds are the compute actions.  JSON output uses the
 * same numbers. */
enum weft_act_kind {
    WEFT_ACT_F,           /* forward */
    WEFT_ACT_B,           /* whole backward: input and weight gradient */
    WEFT_ACT_I,           /* input gradient only */
    WEFT_ACT_W,           /* weight gradient only */
    WEFT_ACT_SEND_F,      /* sends the stage's output to the rank of the next stage */
    WEFT_ACT_RECV_F,      /* receives the stage's input from the previous stage */
    WEFT_ACT_SEND_B,      /* sends the gradient of the stage's input to the previous stage */
    WEFT_ACT_RECV_B,      /* receives the gradient of the stage's output from the next stage */
    WEFT_ACT_REDUCE_GRAD, /* the stage's gradients on this rank are complete; has no micro */
    /* PyTorch: gather the stage's parameters; has no micro; ignored by weft. */
    WEFT_ACT_UNSHARD,
    WEFT_ACT_RESHARD, /* PyTorch: free the gathered parameters; ignored by weft */
    /* PyTorch 2.15: wait until a send is complete, or the reduction of a stage.  The verifier
     * checks them; the executor ignores them. */
    WEFT_ACT_WAIT_SEND_F,
    WEFT_ACT_WAIT_SEND_B,
    WEFT_ACT_WAIT_REDUCE_GRAD, /* has no micro */
    WEFT_N_ACT_KINDS
};

enum { WEFT_MAX_STAGES = 1 << 24 };

struct weft_action {
    uint32_t micro; /* 0 for kinds without a micro */
    uint32_t stage : 24;
    uint32_t kind : 7;
    uint32_t paired : 1; /* runs together with the next action: an overlapped pair of F and B */
};

struct weft_action_span {
    const struct weft_action *at; /* borrowed: until the schedule is freed */
    size_t len;
};

/* Returns true for F, B, I and W. */
static inline bool weft_act_is_compute(unsigned kind)
{
    return kind <= WEFT_ACT_W;
}

/* Returns true for sends and receives. */
static inline bool weft_act_is_message(unsigned kind)
{
    return kind >= WEFT_ACT_SEND_F && kind <= WEFT_ACT_RECV_B;
}

/* Returns true for the waits for a send. */
static inline bool weft_act_is_send_wait(unsigned kind)
{
    return kind == WEFT_ACT_WAIT_SEND_F || kind == WEFT_ACT_WAIT_SEND_B;
}

/* Returns true if actions of this kind belong to a micro-batch. */
static inline bool weft_act_has_micro(unsigned kind)
{
    return kind <= WEFT_ACT_RECV_B || weft_act_is_send_wait(kind);
}

/* Returns the name of a kind in the text form, such as "F" or "SEND_B". */
WEFT_API const char *weft_act_name(unsigned kind);

/* -- placement ----------------------------------------------------------------------------- */

/* The ranks of the stages.  Most schedules have one pipe, so all micro-batches use the same
 * ranks.  Bidirectional schedules have several pipes: micro m uses pipe pipe_of[m], and stage s
 * of pipe p is on rank rank_of[p * n_stages + s].  With M micros and k pipes, the i-th micro of
 * pipe j is j*M/k + i. */
struct weft_placement {
    uint32_t n_ranks, n_stages, n_micros, n_pipes;
    const uint32_t *rank_of; /* borrowed: (n_pipes, n_stages) */
    const uint16_t *pipe_of; /* borrowed: (n_micros), NULL with one pipe */
};

enum weft_placement_kind {
    WEFT_PLACEMENT_LINEAR,        /* stage s on rank s */
    WEFT_PLACEMENT_LOOP,          /* stage s on rank s mod P */
    WEFT_PLACEMENT_V,             /* stages go down the ranks and back up, once */
    WEFT_PLACEMENT_WAVE,          /* stages go down and up the ranks repeatedly */
    WEFT_PLACEMENT_BIDIRECTIONAL, /* each stage on two or more ranks */
    WEFT_PLACEMENT_EXPLICIT,      /* any other placement */
};

/* Returns the pipe of a micro-batch. */
static inline uint32_t weft_placement_pipe(const struct weft_placement *p, uint32_t micro)
{
    return p->pipe_of == NULL ? 0 : p->pipe_of[micro];
}

/* Returns the rank that runs (stage, micro). */
static inline uint32_t weft_placement_rank(const struct weft_placement *p, uint32_t stage,
                                           uint32_t micro)
{
    return p->rank_of[(size_t)weft_placement_pipe(p, micro) * p->n_stages + stage];
}

/* Returns true if a rank runs a stage for at least one micro-batch.  With fewer micro-batches
 * than pipes, a stage may be placed on a rank that never runs it. */
static inline bool weft_placement_runs(const struct weft_placement *p, uint32_t rank,
                                       uint32_t stage)
{
    for (uint32_t m = 0; m < (p->n_pipes == 1 ? 1 : p->n_micros); m++)
        if (weft_placement_rank(p, stage, m) == rank)
            return true;
    return false;
}

/* Returns the name of a kind of placement, such as "linear" or "loop". */
WEFT_API const char *weft_placement_name(enum weft_placement_kind kind);

/* -- schedules ----------------------------------------------------------------------------- */

struct weft_schedule; /* opaque: built once, then read-only, safe to read from any thread */

enum weft_minimize {
    WEFT_MINIMIZE_SPAN,     /* maximum over ranks of the time from first start to last end */
    WEFT_MINIMIZE_MAKESPAN, /* time from 0 to the end of the last action */
};

/* The parameters of a generator.  Zero means "not given" for all fields except ranks and
 * micros. */
struct weft_gen_params {
    uint32_t ranks, micros;
    uint32_t chunks; /* stages per rank; 0: the default of the schedule */
    uint32_t group; /* interleaved: micros per group, as in Megatron; 0: any number of micros */
    uint32_t pipes; /* chimera: number of pipes, an even number; 0: 2 pipes */
    const struct weft_cost *cost; /* borrowed, may be NULL; used by generators that search */
    /* Borrowed, may be NULL; used by generators that search. */
    const struct weft_memory_cost *memory;
    enum weft_minimize minimize; /* used by generators that search */
};

/* The optional parameters that a generator uses.  A generator rejects all other optional
 * parameters, except cost and memory.  A generator that does not use cost and memory ignores
 * them; they then only affect the timing and verification of the result. */
enum weft_gen {
    /* Accepts any number of chunks; without this flag, exactly default_chunks. */
    WEFT_GEN_USES_CHUNKS = 1,
    WEFT_GEN_USES_GROUP = 2,
    WEFT_GEN_USES_PIPES = 4,
    /* Searches: cost, memory and minimize change the order of actions. */
    WEFT_GEN_USES_COST = 8,
    /* Planned in ticks: a forward and a whole backward take one tick each. */
    WEFT_GEN_UNIT_TICKS = 16,
};

/* One row per generator.  Lists, help texts, error messages and the test matrix are derived
 * from these rows. */
struct weft_generator {
    const char *name;
    const char *help;   /* one sentence */
    const char *limits; /* the supported sizes, in words */
    uint32_t default_chunks;
    unsigned flags; /* bitwise OR of enum weft_gen */
    enum weft_status (*make)(const struct weft_gen_params *params, struct weft_schedule **out,
                             struct weft_error *err);
};

/* Returns the table of generators, in display order, and stores its length in *n. */
WEFT_API const struct weft_generator *weft_generator_list(size_t *n);

/* Returns the generator of that name, or NULL if there is none. */
WEFT_API const struct weft_generator *weft_generator_find(const char *name);

/* Generates a schedule by name.  Returns WEFT_USAGE if the name is unknown or the schedule does
 * not support the parameters.  The caller owns *out and frees it with weft_schedule_free(). */
WEFT_API enum weft_status weft_schedule_generate(const char *name,
                                                 const struct weft_gen_params *params,
                                                 struct weft_schedule **out,
                                                 struct weft_error *err);

/* Frees a schedule.  NULL is allowed. */
WEFT_API void weft_schedule_free(struct weft_schedule *s);

/* Returns the name of a schedule, "" if it has none.  The pointer is borrowed. */
WEFT_API const char *weft_schedule_name(const struct weft_schedule *s);

/* Returns the placement of a schedule.  The pointer is borrowed. */
WEFT_API const struct weft_placement *weft_schedule_placement(const struct weft_schedule *s);

/* Returns the kind of the placement. */
WEFT_API enum weft_placement_kind weft_schedule_placement_kind(const struct weft_schedule *s);

/* Returns the actions of a rank in program order.  The actions are borrowed. */
WEFT_API struct weft_action_span weft_schedule_rank(const struct weft_schedule *s,
                                                    uint32_t rank);

/* Returns the number of actions of all kinds on all ranks. */
WEFT_API size_t weft_schedule_n_actions(const struct weft_schedule *s);

/* Returns the maximum number of stages per rank. */
WEFT_API uint32_t weft_schedule_n_chunks(const struct weft_schedule *s);

/* Returns the index of a stage among the stages of a rank, in ascending order of stages. */
WEFT_API uint32_t weft_schedule_chunk(const struct weft_schedule *s, uint32_t rank,
                                      uint32_t stage);

/* Returns true if a schedule contains send or receive actions. */
WEFT_API bool weft_schedule_is_lowered(const struct weft_schedule *s);

/* Returns true if a schedule was read from a text with weft's header lines, false if it was
 * generated or read from rows alone, as PyTorch writes them. */
WEFT_API bool weft_schedule_has_header(const struct weft_schedule *s);

/* Returns true if a schedule has forwards, but no backward, gradient message or REDUCE_GRAD. */
WEFT_API bool weft_schedule_is_forward_only(const struct weft_schedule *s);

/* Copies a schedule.  The caller owns *out and frees it with weft_schedule_free(). */
WEFT_API enum weft_status weft_schedule_dup(const struct weft_schedule *s,
                                            struct weft_schedule **out, struct weft_error *err);

/* Returns the memory size of a schedule in bytes. */
WEFT_API size_t weft_schedule_bytes(const struct weft_schedule *s);

/* -- forward-only schedules ---------------------------------------------------------------- */

/* Derives the forward-only schedule of any schedule: keeps the name, the placement, the order
 * of each rank's forwards and the forward messages; drops B, I, W, REDUCE_GRAD, the backward
 * messages and empty cells.  A forward of an overlapped pair runs alone.  The result of a
 * schedule that verifies also verifies.  Returns WEFT_USAGE if a pointer is NULL.  The caller
 * owns *out.
 *
 * A forward-only schedule runs every (stage, micro) once forward, for evaluation and inference.
 * It has the same text form as other schedules.  A stage keeps nothing after its forward, so
 * every rank has a peak of one activation.  Lowering adds only forward messages. */
WEFT_API enum weft_status weft_schedule_forward_only(const struct weft_schedule *s,
                                                     struct weft_schedule **out,
                                                     struct weft_error *err);

/* -- lowering ------------------------------------------------------------------------------ */

/* Which messages and other actions are added, and where.  A channel is a directed pair of ranks
 * and a direction of data (forward or backward); in PyTorch, a directed pair of ranks has one
 * channel for both.  Both endpoints of a channel list the same sequence of messages. */
enum weft_lowering {
    /* "weft": a send directly follows its producer.  A receive is as late as its consumer and
     * the order of its channel allow.  REDUCE_GRAD follows the last weight gradient of a
     * stage. */
    WEFT_LOWERING_WEFT,
    /* "torch-2.10": the table that the runtime of PyTorch 2.10 to 2.14 makes of a compute-only
     * table, with UNSHARD, RESHARD and REDUCE_GRAD.  A send and its receive are added at the
     * same moment, so all messages have one common order, and even blocking sends cannot
     * deadlock. */
    WEFT_LOWERING_TORCH_2_10,
    /* "torch-2.15": the same for PyTorch 2.15, with WAIT_SEND_F, WAIT_SEND_B and
     * WAIT_REDUCE_GRAD. */
    WEFT_LOWERING_TORCH_2_15,
    /* "torch-2.10-late", "torch-2.15-late": tables for the same releases, with receives as late
     * as their consumers and the order of their channel allow. */
    WEFT_LOWERING_TORCH_2_10_LATE,
    WEFT_LOWERING_TORCH_2_15_LATE,
    WEFT_N_LOWERINGS
};

/* Returns the name of a lowering, such as "torch-2.15". */
WEFT_API const char *weft_lowering_name(enum weft_lowering how);

/* Finds a lowering by its name.  Returns WEFT_USAGE with a list of the names if there is
 * none. */
WEFT_API enum weft_status weft_lowering_find(const char *name, enum weft_lowering *out,
                                             struct weft_error *err);

/* Adds the messages to a schedule that has none.  Returns WEFT_SCHEDULE if a message would have
 * one endpoint only, if the method deadlocks, or if a lowering of PyTorch is requested for a
 * schedule that runs a stage on several ranks.  The caller owns *out. */
WEFT_API enum weft_status weft_schedule_lower(const struct weft_schedule *s,
                                              enum weft_lowering how,
                                              struct weft_schedule **out,
                                              struct weft_error *err);

/* -- text form ----------------------------------------------------------------------------- */

/* One row per rank, with cells separated by commas: "0F0,0F1,1B0,(0F7;7B3)OVERLAP_F_B", as
 * PyTorch's pipelining reads and writes it.  Files of weft have header lines before the rows:
 *
 *     # weft schedule 1
 *     # weft name zb-v
 *     # weft ranks 2 stages 4 micros 3
 *     # weft placement 0 1 1 0          (one line per pipe)
 */
enum weft_text_format {
    WEFT_TEXT_FORMAT_CSV,     /* with the header lines */
    WEFT_TEXT_FORMAT_PYTORCH, /* rows only */
};

/* The maximum size of the text of an action, including the NUL. */
enum { WEFT_ACTION_TEXT_MAX = 40 };

/* Writes the text of an action, such as "2F0", and returns its length. */
WEFT_API size_t weft_action_print(struct weft_action a, char out[WEFT_ACTION_TEXT_MAX]);

/* Prints the cells of one rank, joined by `separator`.  A pair is one cell.  Returns WEFT_USAGE
 * if the schedule does not have that rank.  The caller frees *out. */
WEFT_API enum weft_status weft_schedule_print_rank(const struct weft_schedule *s, uint32_t rank,
                                                   const char *separator, char **out,
                                                   struct weft_error *err);

/* Prints a whole schedule.  The caller frees *out.  `len` may be NULL. */
WEFT_API enum weft_status weft_schedule_print(const struct weft_schedule *s,
                                              enum weft_text_format format, char **out,
                                              size_t *len, struct weft_error *err);

/* Reads either text form.  Both newline styles and blanks around cells are accepted.  An empty
 * cell is an idle step and is dropped.  Every other deviation is an error that names line and
 * column; `source` is the name of the text in that error ("plan.csv").  The result is
 * well-formed but not verified: pass it to weft_verify().  The caller owns *out. */
WEFT_API enum weft_status weft_schedule_parse(const char *text, size_t len, const char *source,
                                              struct weft_schedule **out,
                                              struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
