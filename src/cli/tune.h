/* The options of weft tune, and the functions that print its results. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include <stdio.h>

#include "weft/tune.h"

struct wf_tune_settings {
    uint32_t ranks, micros, chunks, iterations, seed;
    bool whole, json;
    const char *placement, *metric, *seconds;
    const char *cost, *mem, *mem_limit;
    uint32_t layers, global_batch, seq, max_chunks, top;
    const char *model, *layer_cost, *embedding_cost, *head_cost, *bytes_limit, *tflops;
    const char *cluster, *unit, *boundary_bytes;
    const char *format, *output, *color;
    uint32_t width;
};

/* Returns true if the search minimizes the span instead of the makespan. */
static inline bool wf_tune_by_span(const struct wf_tune_settings *s)
{
    return s->metric != NULL && s->metric[0] == 's';
}

/* Prints the best order with its timeline. */
enum weft_status wf_tune_print_text(FILE *out, const struct wf_tune_settings *s,
                                    const struct weft_tune_result *r,
                                    const struct weft_cost *cost,
                                    const struct weft_memory_cost *memory,
                                    struct weft_error *err);

/* Prints the best layouts as a table. */
void wf_layouts_print_text(FILE *out, const struct wf_tune_settings *s,
                           const struct weft_layouts *l);

#endif
