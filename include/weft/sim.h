/* Simulating a schedule on a cluster: links with latency and bandwidth, ranks of different speed,
 * times that vary; where the time goes, and what each link carries.
 *
 *     struct weft_cluster cluster;
 *     weft_cluster_parse("node:2 rank:4 intra:200GB/s,2us inter:25GB/s,8us", &cluster, &err);
 *     struct weft_sim_options options = {.cost = &cost, .cluster = &cluster, .unit_seconds = 1e-3,
 *                                        .bytes = {&boundary_bytes, 1}};
 *     struct weft_sim sim;
 *     if (weft_sim_init(&sim, s, &options, &err) == WEFT_OK) ...
 *     weft_sim_release(&sim);
 *
 * Same input, same bits: nothing depends on the machine or on the time of day.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- clusters ------------------------------------------------------------------------------- */

struct weft_link {
    double bytes_per_second; /* 0: no limit */
    double latency_seconds;
};

/* Nodes of equally many ranks: rank r is on node r / ranks_per_node. */
struct weft_cluster {
    uint32_t nodes, ranks_per_node;
    struct weft_link intra, inter; /* within a node, between nodes */
};

/* Reads "node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us".  Units: B/s to TB/s (powers of ten) or
 * Gb/s and the like (bits), s, ms, us, ns.  node is 1 and inter is intra when not given.  Errors
 * name the column. */
WEFT_API enum weft_status weft_cluster_parse(const char *text, struct weft_cluster *out,
                                             struct weft_error *err);

WEFT_API struct weft_link weft_cluster_link(const struct weft_cluster *c, uint32_t from,
                                            uint32_t to);

/* -- one run -------------------------------------------------------------------------------- */

/* What a transfer keeps busy besides time passing. */
enum weft_contention {
    WEFT_CONTENTION_NONE,  /* it delays what it carries */
    WEFT_CONTENTION_LINK,  /* and its link (a directed pair of ranks): the next one waits */
    WEFT_CONTENTION_RANKS, /* and the ranks at both ends, for the time of the transfer */
};

struct weft_sim_options {
    const struct weft_cost *cost;          /* borrowed; NULL: unit costs */
    const struct weft_memory_cost *memory; /* borrowed; NULL: one unit an activation */
    struct weft_values speed;           /* a rank: its actions take so many times longer; 1 */
    const struct weft_cluster *cluster; /* borrowed; NULL: every hop takes cost->hop */
    double unit_seconds;                /* of the costs, when there is a cluster; 0: 1e-3 */
    struct weft_values bytes;           /* of a message from stage s to s + 1; 0 */
    struct weft_values gradient_bytes;  /* of a message from stage s + 1 to s; as `bytes` */
    enum weft_contention contention;
};

/* Why a rank was idle.  They add up to its idle time. */
struct weft_idle_time {
    double warm_up;       /* before its first action */
    double drain;         /* after its last one */
    double communication; /* in between, while a message that it waited for was under way */
    double imbalance;     /* in between: what it has less to do than the busiest rank */
    double data;          /* in between, the rest: it waited for others to compute */
};

/* What went over one link, a directed pair of ranks. */
struct weft_link_usage {
    uint32_t from, to;
    size_t messages;
    double forward_bytes, backward_bytes;
    double busy; /* time under way, latency apart */
};

/* One step of the critical path, the last first: each ends when the one before in this list could
 * start. */
struct weft_path_step {
    uint32_t rank;
    size_t position; /* in the rank's list */
    double hop;      /* time that its result then was under way; 0 on the same rank */
};

struct weft_sim {
    struct weft_metrics metrics;
    struct weft_idle_time *idle; /* owned: (ranks) */
    size_t n_links;
    struct weft_link_usage *links; /* owned: by from, then to */
    size_t n_path;
    struct weft_path_step *path;               /* owned */
    double path_compute, path_hops, path_wait; /* they add up to the makespan */
    size_t *peak_pending_w; /* owned: (ranks), most micros between their I and their W */
    size_t *peak_receive; /* owned: (ranks), most messages that are there and not used up yet */
};

/* The schedule must be proven (weft_verify()).  The caller releases *out. */
WEFT_API enum weft_status weft_sim_init(struct weft_sim *out, const struct weft_schedule *s,
                                        const struct weft_sim_options *options,
                                        struct weft_error *err);
WEFT_API void weft_sim_release(struct weft_sim *sim);

/* Refuses what makes no sense: negative or infinite speeds, a cluster with fewer ranks than the
 * schedule. */
WEFT_API enum weft_status weft_sim_check(const struct weft_schedule *s,
                                         const struct weft_sim_options *options,
                                         struct weft_error *err);

/* -- costs from a measurement ---------------------------------------------------------------- */

struct weft_trace;

/* Mean times of each stage, in the trace's unit.  All arrays are (n_stages). */
struct weft_measured_cost {
    uint32_t n_stages;
    double *f, *i, *w, *b, *fb; /* owned */
};

/* From the compute events of a trace.  A stage that lacks a kind gets the mean of the others;
 * where only whole backwards were seen, I and W get half each, where only split ones, B gets their
 * sum; without pairs, FB gets F + B.  WEFT_DATA when there are no forwards or no backwards. */
WEFT_API enum weft_status weft_measured_cost_init(struct weft_measured_cost *out,
                                                  const struct weft_trace *trace,
                                                  struct weft_error *err);
WEFT_API void weft_measured_cost_release(struct weft_measured_cost *m);

/* -- many runs at once ---------------------------------------------------------------------- */

enum { WEFT_SCENARIOS = 16 }; /* that go through the schedule together */

/* How the length of every action varies: times exp(sigma * normal - sigma^2 / 2), whose mean is
 * 1. */
struct weft_jitter {
    double sigma;
    uint64_t seed;
};

struct weft_samples {
    size_t n;
    float *makespan; /* owned: ascending */
    double mean, p5, p50, p95;
    float
        *slow_rank; /* owned: (ranks), what the makespan grows by if this rank is 10 % slower */
};

/* Runs n scenarios.  `jitter` may be NULL: then they are all alike.  Links only delay here.  Times
 * are in single precision: with some 10^5 actions a rank they are off by a few parts in 10^4. */
WEFT_API enum weft_status weft_samples_init(struct weft_samples *out,
                                            const struct weft_schedule *s,
                                            const struct weft_sim_options *options,
                                            const struct weft_jitter *jitter, size_t n,
                                            struct weft_error *err);
WEFT_API void weft_samples_release(struct weft_samples *samples);

/* Many pipelines that run the same schedule, every rank with its own speed: speeds is (pipelines,
 * ranks), makespans (pipelines).  The step ends with the slowest. */
WEFT_API enum weft_status weft_fleet_run(const struct weft_schedule *s,
                                         const struct weft_sim_options *options,
                                         const float *speeds, size_t n_pipelines,
                                         float *makespans, struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
