/* Representation of the table of blocks. */
#ifndef PLANNING_TRAFFIC_TRAFFIC_PRIV_H
#define PLANNING_TRAFFIC_TRAFFIC_PRIV_H

#include "weft/traffic.h"

/* Blocks are finished in order of their numbers.  The blocks finished before a stage are
 * therefore 0 .. n-1 for some n, and the blocks that a stage finishes are a range. */
struct weft_traffic {
    struct weft_placement place; /* points into rank_of */
    enum weft_block_cache cache;
    uint32_t n_blocks;
    uint32_t *rank_of;      /* owned: (pipes, stages) */
    size_t *micros;         /* owned: (pipes), number of micro-batches of each pipe */
    uint32_t *first;        /* owned: (stages + 1), count of blocks finished before the stage */
    uint32_t *numbers;      /* owned: (blocks), 0, 1, 2, ... */
    uint32_t *sources;      /* owned: (pipes, stages, blocks) */
    uint32_t *rank_sources; /* owned: (pipes, ranks, blocks) */
    uint32_t *sends;        /* owned: the sent blocks of all transitions between stages */
    size_t *begin;          /* owned: (pipes, stages) + 1, index of each stage's first send */
    struct weft_traffic_count *counts; /* owned: (pipes) */
};

/* Returns the index of a stage in the (pipes, stages) arrays. */
static inline size_t wf_traffic_index(const struct weft_traffic *t, uint32_t pipe,
                                      uint32_t stage)
{
    return (size_t)pipe * t->place.n_stages + stage;
}

/* Returns a row of rank_sources. */
static inline uint32_t *wf_traffic_rank_row(const struct weft_traffic *t, uint32_t pipe,
                                            uint32_t rank)
{
    return t->rank_sources + ((size_t)pipe * t->place.n_ranks + rank) * t->n_blocks;
}

#endif
