/* At the end of a step, each rank summarizes its part, and rank 0 gathers the summaries.
 *
 *     summary: struct wf_step_summary | one loss sum per micro | one squared norm per segment
 */
#ifndef TRAINING_TRAINER_SUMMARY_H
#define TRAINING_TRAINER_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "training/layout/topology.h"
#include "weft/comm.h"
#include "weft/status.h"

enum { WF_SUMMARY_ERROR = 480 };

struct wf_step_summary {
    uint32_t status;
    uint32_t stage, micro; /* stage and micro of the failure */
    uint32_t stop;         /* a stop was requested on this rank */
    /* start, end and computing time of the pipeline, on rank 0's clock */
    int64_t begin_ns, end_ns, compute_ns;
    char error[WF_SUMMARY_ERROR];
};

struct wf_summaries {
    const struct wf_topology *topology; /* borrowed */
    struct weft_comm *comm;             /* borrowed; NULL: this rank is the only one */
    uint32_t rank, n_ranks;
    struct wf_step_summary *own; /* owned */
    size_t own_bytes;

    /* The members below are used on rank 0 only. */
    struct wf_step_summary **all; /* owned: (n_ranks), each pointer owned */
    /* owned: (n_ranks), bytes of each summary without and with squared norms */
    size_t *sizes, *sizes_with_norm;
    double *squares; /* owned: squared norm of each segment of the model */
};

/* Allocates all summaries.  The caller releases *s even if this function fails.  Local. */
enum weft_status wf_summaries_init(struct wf_summaries *s, const struct wf_topology *topology,
                                   struct weft_comm *comm, struct weft_error *err);
void wf_summaries_release(struct wf_summaries *s);

/* Writes the summary of this rank.  `losses` contains one sum per micro of its replica.
 * `squares` contains one squared norm per segment of its shards, or is NULL.  Local. */
void wf_summaries_set(struct wf_summaries *s, const struct wf_step_summary *head,
                      const double *losses, const double *squares, size_t n_squares);

/* Gathers all summaries on rank 0, with or without the squared norms.  Collective. */
enum weft_status wf_summaries_gather(struct wf_summaries *s, bool with_norm,
                                     struct weft_error *err);

/* The functions below are for rank 0, after wf_summaries_gather().  Local. */

/* Returns the sum of the losses.  The losses are added in the order of micros, whatever the
 * layout. */
double wf_summaries_total_loss(const struct wf_summaries *s);

/* Returns the norm of all gradients.  Segments are added in model order, whatever the
 * layout. */
double wf_summaries_norm(struct wf_summaries *s);

/* Returns the name of the first parameter whose gradient is not finite.  Call it after
 * wf_summaries_norm(). */
const char *wf_summaries_find_nonfinite(const struct wf_summaries *s);

/* Returns the first failure in the order of micros and stages, which is the cause of the other
 * failures, or NULL if no rank failed. */
const struct wf_step_summary *wf_summaries_first_failure(const struct wf_summaries *s);

/* Returns the fraction of the pipeline time of all ranks during which they waited.  Sets
 * *longest_ns to the longest pipeline time of a rank. */
double wf_summaries_bubble(const struct wf_summaries *s, int64_t *longest_ns);

#endif
