/* Simulation of a schedule on a cluster: links with latency and bandwidth, ranks of different
 * speed, times that vary.  The result attributes idle time to causes and counts the traffic of
 * each link.
 *
 *     struct weft_cluster cluster;
 *     weft_cluster_parse("node:2 rank:4 intra:200GB/s,2us inter:25GB/s,8us", &cluster, &err);
 *     struct weft_sim_options options = {.cost = &cost, .cluster = &cluster,
 *                                        .unit_seconds = 1e-3, .bytes = {&boundary_bytes, 1}};
 *     struct weft_sim sim;
 *     if (weft_sim_init(&sim, s, &options, &err) == WEFT_OK) ...
 *     weft_sim_release(&sim);
 *
 * The same input gives the same bits on every machine.
 *
 * Unstable: struct weft_sim_options and struct weft_sim gain fields.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- clusters ------------------------------------------------------------------------------ */

struct weft_link {
    double bytes_per_second; /* 0: unlimited */
    double latency_seconds;
};

/* Nodes with the same number of ranks: rank r is on node r / ranks_per_node. */
struct weft_cluster {
    uint32_t nodes, ranks_per_node;
    struct weft_link intra, inter; /* within a node, between nodes */
};

/* Reads "node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us".  Units: B/s to EB/s (powers of ten)
 * and KiB/s to EiB/s (powers of two), or bits as in Gb/s and Gbit/s; s, ms, us, ns.  The
 * default of `node` is 1; the default of `inter` is the value of `intra`.  Errors name the
 * column. */
WEFT_API enum weft_status weft_cluster_parse(const char *text, struct weft_cluster *out,
                                             struct weft_error *err);

/* Returns the link between two ranks. */
WEFT_API struct weft_link weft_cluster_link(const struct weft_cluster *c, uint32_t from,
                                            uint32_t to);

/* -- one run ------------------------------------------------------------------------------- */

/* The resources that a transfer occupies for its duration. */
enum weft_contention {
    WEFT_CONTENTION_NONE, /* none: a transfer only delays the data */
    /* Its link (a directed pair of ranks): the next transfer on the link waits. */
    WEFT_CONTENTION_LINK,
    WEFT_CONTENTION_RANKS, /* its link and the ranks at both endpoints */
};

struct weft_sim_options {
    const struct weft_cost *cost;          /* borrowed; NULL: unit costs */
    const struct weft_memory_cost *memory; /* borrowed; NULL: one unit per activation */
    /* Per rank: factor for the durations of the rank's actions; default 1. */
    struct weft_values speed;
    const struct weft_cluster *cluster; /* borrowed; NULL: every hop takes cost->hop */
    double unit_seconds;                /* unit of the costs, with a cluster; 0: 1e-3 */
    struct weft_values bytes;           /* per message from stage s to s + 1; default 0 */
    struct weft_values gradient_bytes;  /* per message from stage s + 1 to s; default `bytes` */
    enum weft_contention contention;
};

/* The causes of a rank's idle time.  They add up to its idle time. */
struct weft_idle_time {
    double warm_up;       /* before the rank's first action */
    double drain;         /* after the rank's last action */
    double communication; /* between actions: a required message is in transit */
    /* Between actions: at most the busiest rank's work minus this rank's work. */
    double imbalance;
    double data; /* between actions: the remaining time, waiting for other ranks to compute */
};

/* The traffic of one link, a directed pair of ranks. */
struct weft_link_usage {
    uint32_t from, to;
    size_t messages;
    double forward_bytes, backward_bytes;
    double busy; /* transfer time without latency */
};

/* One step of the critical path.  The list is in reverse order: each action ends when the
 * action of the preceding entry can start. */
struct weft_path_step {
    uint32_t rank;
    size_t position; /* index in the rank's list of actions */
    /* Transit time of the action's result; 0 if producer and consumer are on the same rank. */
    double hop;
};

struct weft_sim {
    struct weft_metrics metrics;
    struct weft_idle_time *idle; /* owned: (ranks) */
    size_t n_links;
    struct weft_link_usage *links; /* owned: by from, then to */
    size_t n_path;
    struct weft_path_step *path;               /* owned */
    double path_compute, path_hops, path_wait; /* the sum of these three is the makespan */
    size_t *peak_pending_w; /* owned: (ranks), maximum number of micros between their I and W */
    size_t *peak_receive; /* owned: (ranks), maximum number of messages received but not used */
};

/* Simulates a schedule that has passed weft_verify().  The caller releases *out. */
WEFT_API enum weft_status weft_sim_init(struct weft_sim *out, const struct weft_schedule *s,
                                        const struct weft_sim_options *options,
                                        struct weft_error *err);

/* Frees the arrays of a simulation.  A zeroed simulation is allowed. */
WEFT_API void weft_sim_release(struct weft_sim *sim);

/* Checks the options.  Returns WEFT_USAGE for negative or infinite speeds and for a cluster
 * with fewer ranks than the schedule. */
WEFT_API enum weft_status weft_sim_check(const struct weft_schedule *s,
                                         const struct weft_sim_options *options,
                                         struct weft_error *err);

/* -- costs from a measurement -------------------------------------------------------------- */

struct weft_trace;

/* Mean times of each stage, in the trace's unit.  All arrays are (n_stages). */
struct weft_measured_cost {
    uint32_t n_stages;
    double *f, *i, *w, *b, *fb; /* owned */
};

/* Computes mean times from the compute events of a trace.  A stage without events of a kind
 * gets the mean of the other stages.  If all backwards are whole, I and W each get half of B;
 * if all are split, B gets I + W; without pairs, FB gets F + B.  Returns WEFT_DATA if there are
 * no forwards or no backwards.  The caller releases *out. */
WEFT_API enum weft_status weft_measured_cost_init(struct weft_measured_cost *out,
                                                  const struct weft_trace *trace,
                                                  struct weft_error *err);

/* Frees the arrays of measured costs.  Zeroed costs are allowed. */
WEFT_API void weft_measured_cost_release(struct weft_measured_cost *m);

/* The distribution of measured times.  All fields are 0 if there are none. */
struct weft_spread {
    size_t n; /* number of events */
    double mean, min, median, max;
};

/* The distribution of the times of each stage, in the trace's unit.  All arrays are
 * (n_stages). */
struct weft_cost_spread {
    uint32_t n_stages;
    struct weft_spread *f, *i, *w, *b; /* owned */
    struct weft_spread *fb;            /* owned: overlapped pairs, by the stage of their F */
    /* From the end of an action on one rank to the start of the action that waits for its
     * result on another one.  Only events of the lane `wait` that began before the result was
     * complete count. */
    struct weft_spread hop;
};

/* Computes the distributions from the events of a trace.  A kind without events is not an
 * error.  The caller releases *out. */
WEFT_API enum weft_status weft_cost_spread_init(struct weft_cost_spread *out,
                                                const struct weft_trace *trace,
                                                struct weft_error *err);

/* Frees the arrays of a spread.  A zeroed spread is allowed. */
WEFT_API void weft_cost_spread_release(struct weft_cost_spread *s);

/* -- many runs at once --------------------------------------------------------------------- */

enum { WEFT_SCENARIOS = 16 }; /* number of scenarios that are simulated together */

/* Random variation of every action's time: the factor is exp(sigma * normal - sigma^2 / 2),
 * whose mean is 1. */
struct weft_jitter {
    double sigma;
    uint64_t seed;
};

struct weft_samples {
    size_t n;
    float *makespan; /* owned: ascending */
    double mean, p5, p50, p95;
    float *slow_rank; /* owned: (ranks), increase of the makespan if this rank is 10 % slower */
};

/* Simulates n scenarios.  `jitter` may be NULL: all scenarios are then equal.  Transfers
 * only delay data: options->contention must be WEFT_CONTENTION_NONE.  Times are in single
 * precision: with about 10^5 actions per rank the error is a few parts in 10^4.  The caller
 * releases *out. */
WEFT_API enum weft_status weft_samples_init(struct weft_samples *out,
                                            const struct weft_schedule *s,
                                            const struct weft_sim_options *options,
                                            const struct weft_jitter *jitter, size_t n,
                                            struct weft_error *err);

/* Frees the arrays of samples.  Zeroed samples are allowed. */
WEFT_API void weft_samples_release(struct weft_samples *samples);

/* Simulates many pipelines that run the same schedule with a speed per rank: speeds is
 * (pipelines, ranks), makespans is (pipelines).  The step ends when the slowest pipeline
 * ends. */
WEFT_API enum weft_status weft_fleet_run(const struct weft_schedule *s,
                                         const struct weft_sim_options *options,
                                         const float *speeds, size_t n_pipelines,
                                         float *makespans, struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
