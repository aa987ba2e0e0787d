/* Causal self-attention, tiled: no (seq, seq) matrix is stored, memory is linear in seq.
 *
 *     for each sequence, each query head h with its key/value head g = h / (heads / kv_heads):
 *         out = softmax(q k^T / sqrt(head), causal) v
 *
 * The shape alone determines how the work is divided into tasks.  The forward stores the
 * logarithm of each query's sum of exponentials (lse).  The backward recomputes the
 * probabilities from the lse.
 *
 *     wf_pool_run(pool, wf_attention_forward_tasks(&a), run_one, &a), where run_one calls
 *     wf_attention_forward(&a, task, scratch of that worker)
 */
#ifndef COMPUTE_KERN_ATTENTION_H
#define COMPUTE_KERN_ATTENTION_H

#include <stddef.h>

#include "compute/kern/isa.h"
#include "compute/tensor/tensor.h"

struct wf_attention {
    /* Matrices have batch * seq rows; the rows of a sequence are adjacent. */
    size_t batch, seq;
    size_t heads, kv_heads; /* heads is a multiple of kv_heads */
    size_t head;            /* elements per head */
    /* q: (batch * seq, heads * head); k, v: (batch * seq, kv_heads * head). */
    struct wf_mat q, k, v;
    struct wf_mat out; /* same shape as q */
    float *lse;        /* (batch, heads, seq): logarithm of the sum of exponentials */
    /* Backward only.  dq, dk and dv may alias q, k and v: a task reads all the values it needs
     * before it overwrites them. */
    struct wf_mat dout;       /* same shape as out; f32 */
    struct wf_mat dq, dk, dv; /* same shapes as q, k, v */
};

/* Returns the bytes of scratch memory that one worker needs for either direction.  The memory
 * must be 64-byte aligned. */
size_t wf_attention_scratch(const struct wf_attention *a);

/* Returns the number of tasks of the forward. */
size_t wf_attention_forward_tasks(const struct wf_attention *a);
/* Runs one task of the forward in the calling thread. */
void wf_attention_forward(const struct wf_attention *a, size_t task, void *scratch);

/* Returns the number of tasks of the backward. */
size_t wf_attention_backward_tasks(const struct wf_attention *a);
/* Runs one task of the backward in the calling thread. */
void wf_attention_backward(const struct wf_attention *a, size_t task, void *scratch);

/* Computes all tasks of the forward in plain C, in double, for tests. */
void wf_attention_forward_ref(const struct wf_attention *a);
/* Computes all tasks of the backward in plain C, in double, for tests.  Does not support
 * aliased matrices. */
void wf_attention_backward_ref(const struct wf_attention *a);

/* Runs one task with the code for one instruction set, for tests and benchmarks.  Returns false
 * if the machine or the build does not support it. */
_Bool wf_attention_forward_of(enum wf_isa isa, const struct wf_attention *a, size_t task,
                              void *scratch);
_Bool wf_attention_backward_of(enum wf_isa isa, const struct wf_attention *a, size_t task,
                               void *scratch);

#endif
