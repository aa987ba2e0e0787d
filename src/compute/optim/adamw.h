/* AdamW over all tensors of a model, and the norm of their gradients.
 *
 *     struct wf_optim *o;
 *     wf_optim_new(tensors, n, &settings, pool, &o, &err);     allocates the moments once
 *     norm = sqrt(wf_optim_norm_squared(o));
 *     wf_optim_update(o, &step, pack_rows, stage);             step.t = 1, 2, 3, ...
 *
 * The norm and the update run on the pool.  The division into tasks and the order of partial
 * sums depend only on the shapes of the tensors.  A step allocates nothing. */
#ifndef COMPUTE_OPTIM_ADAMW_H
#define COMPUTE_OPTIM_ADAMW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/pool.h"
#include "weft/status.h"

struct wf_optim_tensor {
    const char *name;  /* all pointers in this struct are borrowed while the optimizer exists */
    size_t rows, cols; /* vectors: cols is 1 */
    float *value;      /* the trained values */
    int64_t *exact;    /* gradient as exact sums in units of 2^-50; NULL if `fast` is set */
    float *fast;       /* gradient in fp32; NULL if `exact` is set */
    bool decay;        /* weight decay applies */
    /* This optimizer accesses and updates only elements [begin, end).  Both bounds are at
     * boundaries of WF_NORM_SEGMENT elements.  begin = end = 0 means all elements. */
    size_t begin, end;
    float *m, *v; /* moments of elements [begin, end); owned by the optimizer */
};

struct wf_optim_settings {
    double beta1, beta2, eps, weight_decay;
};

struct wf_optim_step {
    uint64_t t; /* number of this update, from 1 */
    double lr;
    double scale; /* factor applied to all gradients (gradient clipping) */
};

/* Called when rows [row0, row1) of a tensor that the optimizer updates in full have their new
 * values, which are still in this thread's cache.  row0 is a multiple of 16.  row1 is, too,
 * unless it is the number of rows.  Called from all threads of the pool, for different rows. */
typedef void wf_optim_updated_fn(void *arg, size_t tensor, size_t row0, size_t row1);

struct wf_optim;

/* Creates an optimizer for tensors in model order, with moments of zero.  Copies the list.  The
 * caller frees *out with wf_optim_free().  Returns WEFT_NOMEM if memory runs out. */
enum weft_status wf_optim_new(const struct wf_optim_tensor *tensors, size_t n,
                              const struct wf_optim_settings *settings, struct wf_pool *pool,
                              struct wf_optim **out, struct weft_error *err);
void wf_optim_free(struct wf_optim *o); /* NULL is allowed */

/* Returns the tensors with their moments, for checkpoints; borrowed. */
const struct wf_optim_tensor *wf_optim_tensors(const struct wf_optim *o, size_t *n);
/* Returns the size of the moments in bytes. */
size_t wf_optim_bytes(const struct wf_optim *o);

/* Returns the sum of squares of all gradients, computed in double.  Each tensor is divided into
 * segments of WF_NORM_SEGMENT elements; the sums of the segments are added in order of tensors
 * and of segments within a tensor. */
double wf_optim_norm_squared(struct wf_optim *o);

/* Returns the sum of squares of each segment, in the order of wf_optim_norm_squared().  The
 * array is borrowed until the next call. */
const double *wf_optim_segment_squares(struct wf_optim *o, size_t *n);

/* Runs one step of AdamW on all tensors.  `updated` may be NULL. */
void wf_optim_update(struct wf_optim *o, const struct wf_optim_step *step,
                     wf_optim_updated_fn *updated, void *arg);

#endif
