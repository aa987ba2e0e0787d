/* How attention is cut, and the tasks as each set of instructions has them.  The sizes are the
 * same for all of them, so scratch memory and tasks do not depend on the machine. */
#ifndef COMPUTE_KERN_FAST_ATTENTION_H
#define COMPUTE_KERN_FAST_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/kern/attention.h"

enum {
    ATTENTION_SEGMENT = 64, /* queries, and keys, that are multiplied in one go */
    ATTENTION_SPAN = 256,   /* most queries of a forward task: a whole number of blocks */
    ATTENTION_LANES = 16,   /* the widest vector, in floats */
};

static inline size_t attention_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The length of a head's row in scratch memory: what is beyond the head is zero. */
static inline size_t attention_row(const struct wf_attention *a)
{
    return attention_round_up(a->head, ATTENTION_LANES);
}

/* Rows of a whole sequence in scratch memory. */
static inline size_t attention_rows(const struct wf_attention *a)
{
    return attention_round_up(a->seq, ATTENTION_LANES);
}

/* Queries of a forward task.  More of them share the packing of keys, fewer give more tasks. */
static inline size_t attention_span(const struct wf_attention *a)
{
    bool plenty = a->seq >= 4 * ATTENTION_SPAN || a->batch * a->heads >= 32;
    return plenty ? ATTENTION_SPAN : ATTENTION_SPAN / 2;
}

static inline size_t attention_spans(const struct wf_attention *a)
{
    return (a->seq + attention_span(a) - 1) / attention_span(a);
}

/* Floats of scratch memory.  A forward task holds its queries transposed, its sums, three numbers
 * for each query, a block of keys, one of values, one of scores, and one row-wise block of
 * queries.  It does not grow with the sequence. */
static inline size_t attention_forward_floats(const struct wf_attention *a)
{
    size_t blocks = 2 * ATTENTION_SPAN + 3 * ATTENTION_SEGMENT;
    return attention_row(a) * blocks + 3 * ATTENTION_SPAN +
           ATTENTION_SEGMENT * ATTENTION_SEGMENT;
}

/* A backward task holds the keys and values of a sequence and their gradients; of one block of
 * queries the queries and the output's gradient, both also transposed, the queries' gradient, and
 * two numbers for each query; and two blocks of scores. */
static inline size_t attention_backward_floats(const struct wf_attention *a)
{
    size_t rows = 4 * attention_rows(a) + 5 * ATTENTION_SEGMENT;
    return attention_row(a) * rows + 2 * ATTENTION_SEGMENT +
           2 * ATTENTION_SEGMENT * ATTENTION_SEGMENT;
}

#define ATTENTION_TASKS(isa)                                                                   \
    void wf_attention_forward_task_##isa(const struct wf_attention *a, size_t task,            \
                                         float *scratch);                                      \
    void wf_attention_backward_task_##isa(const struct wf_attention *a, size_t task,           \
                                          float *scratch)

ATTENTION_TASKS(portable);
ATTENTION_TASKS(avx2);
ATTENTION_TASKS(avx512);

#undef ATTENTION_TASKS

#endif
