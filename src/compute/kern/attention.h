/* Causal self-attention, tiled: no (seq, seq) matrix is stored, memory is linear in seq.
 *
 *     for each sequence, each query head h with its key/value head g = h / (heads / kv_heads):
 *         out = softmax(q k^T / sqrt(head), causal) v
 *
 * The work is cut into tasks by its shape alone.  The forward keeps the logarithm of each query's
 * sum of exponentials; the backward computes the probabilities again from it.
 *
 *     wf_pool_run(pool, wf_attention_forward_tasks(&a), run_one, &a) ... where run_one calls
 *     wf_attention_forward(&a, task, scratch of that worker)
 */
#ifndef COMPUTE_KERN_ATTENTION_H
#define COMPUTE_KERN_ATTENTION_H

#include <stddef.h>

#include "compute/kern/isa.h"
#include "compute/tensor/tensor.h"

struct wf_attention {
    size_t batch, seq;      /* a matrix has batch * seq rows, sequence after sequence */
    size_t heads, kv_heads; /* heads is a multiple of kv_heads */
    size_t head;            /* elements of a head */
    struct wf_mat q, k, v;  /* (batch * seq, heads * head), k and v (.., kv_heads * head) */
    struct wf_mat out;      /* as q */
    float *lse;             /* (batch, heads, seq) */
    /* Backward only.  dq, dk, dv may be q, k, v themselves: a task reads all it needs of them
     * before it writes. */
    struct wf_mat dout;       /* as out; f32 */
    struct wf_mat dq, dk, dv; /* as q, k, v */
};

/* Bytes of scratch that one worker needs, for either direction; 64-byte aligned memory. */
size_t wf_attention_scratch(const struct wf_attention *a);

size_t wf_attention_forward_tasks(const struct wf_attention *a);
void wf_attention_forward(const struct wf_attention *a, size_t task, void *scratch);

size_t wf_attention_backward_tasks(const struct wf_attention *a);
void wf_attention_backward(const struct wf_attention *a, size_t task, void *scratch);

/* Plain C in double, whole calls, for tests.  The backward allows no shared matrices. */
void wf_attention_forward_ref(const struct wf_attention *a);
void wf_attention_backward_ref(const struct wf_attention *a);

/* For tests and benchmarks: one task compiled for one set of instructions; false when the machine
 * or the build lacks it. */
_Bool wf_attention_forward_of(enum wf_isa isa, const struct wf_attention *a, size_t task,
                              void *scratch);
_Bool wf_attention_backward_of(enum wf_isa isa, const struct wf_attention *a, size_t task,
                               void *scratch);

#endif
