/* Divides attention into tasks, sizes the scratch memory, and dispatches a task to the code for
 * the machine's instruction set. */
#include "compute/kern/attention.h"

#include <stdbool.h>

#include "base/size.h"
#include "compute/kern/fast/attention.h"

size_t wf_attention_scratch(const struct wf_attention *a)
{
    return sizeof(float) *
           wf_size_max(attention_forward_floats(a), attention_backward_floats(a));
}

size_t wf_attention_forward_tasks(const struct wf_attention *a)
{
    return a->batch * a->heads * attention_spans(a);
}

/* Each key/value head of a sequence is one task, since the gradients of keys and values are
 * sums over all queries that attend to them, and may overwrite the keys and values. */
size_t wf_attention_backward_tasks(const struct wf_attention *a)
{
    return a->batch * a->kv_heads;
}

typedef void task_fn(const struct wf_attention *a, size_t task, float *scratch);

static const struct tasks {
    task_fn *forward, *backward;
} tasks[] = {
    {wf_attention_forward_task_portable, wf_attention_backward_task_portable},
#if defined(__x86_64__)
    {wf_attention_forward_task_avx2, wf_attention_backward_task_avx2},
    {wf_attention_forward_task_avx512, wf_attention_backward_task_avx512},
    {wf_attention_forward_task_avx512, wf_attention_backward_task_avx512},
#endif
};

void wf_attention_forward(const struct wf_attention *a, size_t task, void *scratch)
{
    tasks[wf_isa()].forward(a, task, scratch);
}

void wf_attention_backward(const struct wf_attention *a, size_t task, void *scratch)
{
    tasks[wf_isa()].backward(a, task, scratch);
}

bool wf_attention_forward_of(enum wf_isa isa, const struct wf_attention *a, size_t task,
                             void *scratch)
{
    if (isa > wf_isa())
        return false;
    tasks[isa].forward(a, task, scratch);
    return true;
}

bool wf_attention_backward_of(enum wf_isa isa, const struct wf_attention *a, size_t task,
                              void *scratch)
{
    if (isa > wf_isa())
        return false;
    tasks[isa].backward(a, task, scratch);
    return true;
}
