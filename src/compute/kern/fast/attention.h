/* How attention is divided into tasks, its scratch memory, and the tasks of each instruction
 * set.  The sizes are the same for all instruction sets, so tasks and scratch memory do not
 * depend on the machine. */
#ifndef COMPUTE_KERN_FAST_ATTENTION_H
#define COMPUTE_KERN_FAST_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/size.h"
#include "compute/kern/attention.h"

enum {
    ATTENTION_SEGMENT = 64, /* queries per block, and keys per block */
    /* Maximum number of queries per forward task; a multiple of ATTENTION_SEGMENT. */
    ATTENTION_SPAN = 256,
    ATTENTION_LANES = 16, /* the widest vector, in floats */
};

/* Returns the length of a head's row in scratch memory; the elements after the head's elements
 * are zero. */
static inline size_t attention_row(const struct wf_attention *a)
{
    return wf_size_round_up(a->head, ATTENTION_LANES);
}

/* Returns the number of rows of a whole sequence in scratch memory. */
static inline size_t attention_rows(const struct wf_attention *a)
{
    return wf_size_round_up(a->seq, ATTENTION_LANES);
}

/* Returns the number of queries per forward task.  More queries share the packing of keys;
 * fewer give more tasks. */
static inline size_t attention_span(const struct wf_attention *a)
{
    bool plenty = a->seq >= 4 * ATTENTION_SPAN || a->batch * a->heads >= 32;
    return plenty ? ATTENTION_SPAN : ATTENTION_SPAN / 2;
}

/* Returns the number of spans. */
static inline size_t attention_spans(const struct wf_attention *a)
{
    return (a->seq + attention_span(a) - 1) / attention_span(a);
}

/* Returns the number of floats of scratch memory that a forward task needs: its queries
 * transposed, its sums, three numbers per query, a block of keys, of values and of scores, and
 * a block of query rows.  This number does not depend on the length of the sequence. */
static inline size_t attention_forward_floats(const struct wf_attention *a)
{
    size_t blocks = 2 * ATTENTION_SPAN + 3 * ATTENTION_SEGMENT;
    return attention_row(a) * blocks + 3 * ATTENTION_SPAN +
           ATTENTION_SEGMENT * ATTENTION_SEGMENT;
}

/* Returns the number of floats of scratch memory that a backward task needs: keys and values of
 * a sequence and their gradients; for one block of queries the queries and the output's
 * gradient, both also transposed, the queries' gradient, and two numbers per query; and two
 * blocks of scores. */
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
