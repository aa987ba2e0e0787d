/* What is kept of a profile of PyTorch. */
#ifndef PLANNING_TRACE_KINETO_PRIV_H
#define PLANNING_TRACE_KINETO_PRIV_H

#include "weft/trace.h"

/* One action.  Times are in nanoseconds since the base time of the file. */
struct wf_kineto_action {
    int64_t start, end; /* of the annotation */
    int64_t work;       /* start of the work, at least `start`; before it the rank waits */
    uint64_t thread;
    struct weft_action action, partner;
    enum weft_lane lane;
    uint32_t step;
    int64_t gpu_start, gpu_end; /* of the kernels; equal if there are none */
};

enum { WF_KINETO_SOURCE = 81 };

/* The actions of one file, sorted by action and then by start. */
struct wf_kineto_file {
    char source[WF_KINETO_SOURCE];
    uint32_t rank;
    int64_t base_ns;
    struct wf_kineto_action *at; /* owned */
    size_t n, cap;
    size_t n_distinct; /* number of different actions: the size of a complete step */
    size_t *first;     /* owned: (n_distinct), index of the first occurrence of each action */
    uint32_t n_steps;  /* number of steps that have all actions */
};

struct weft_kineto {
    struct wf_kineto_file *files; /* owned */
    size_t n, cap;
};

/* Reads one file.  *file_rank is distributedInfo.rank, or WEFT_NO_RANK without it.  The caller
 * releases *out with wf_kineto_file_release(). */
enum weft_status wf_kineto_read(const char *text, size_t len, const char *source,
                                struct wf_kineto_file *out, uint32_t *file_rank,
                                struct weft_error *err);

void wf_kineto_file_release(struct wf_kineto_file *f);

/* Returns true if no backward of a step starts before its forward. */
bool wf_kineto_step_in_order(const struct wf_kineto_file *f, uint32_t step);

#endif
