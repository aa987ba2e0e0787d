/* Which tokens a step trains on: a pure function of the step's number.
 *
 * A step is B rows of T inputs, and as targets the T tokens that follow each of them by one.
 *
 *     in file order   step k takes tokens k*B*T .. (k+1)*B*T, the last one as a target only:
 *                     the rows lie behind one another.  An epoch is as many whole steps as there
 *                     are; then the same tokens come again.
 *     shuffled        all data is cut into windows of T tokens and the one behind; row r of step
 *                     k is the (k*B + r)-th window of a random order, a new one in each epoch.
 *                     An epoch is each window once; a step may span two epochs.
 *
 * What is left over at the end of the data and fills no step, or no window, is never used.
 * Nothing is stored from step to step: a run resumes at any step by asking for it.
 */
#ifndef TRAINING_DATA_BATCH_H
#define TRAINING_DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"
#include "training/data/shard.h"

struct wf_batch {
    const struct wf_shards *shards; /* borrowed: while the batch is in use */
    uint32_t rows;                  /* B: sequences of a step, over all replicas */
    uint32_t seq;                   /* T: tokens of a sequence */
    uint32_t vocab;
    bool shuffle;
    uint64_t seed;      /* of the order */
    uint64_t epoch_len; /* steps of an epoch; shuffled: windows */
};

/* Fills *batch.  Data too short for one step (shuffled: for one window) is WEFT_DATA.  Local. */
enum weft_status wf_batch_init(struct wf_batch *batch, const struct wf_shards *shards,
                               uint32_t rows, uint32_t seq, uint32_t vocab, bool shuffle,
                               uint64_t seed, struct weft_error *err);

/* Rows row0 .. row0 + rows - 1 of a step, for one micro: inputs and targets, (rows, T) each.
 * Any thread may ask.  Local. */
enum weft_status wf_batch_read(const struct wf_batch *batch, uint64_t step, uint32_t row0,
                               uint32_t rows, int32_t *inputs, int32_t *targets,
                               struct weft_error *err);

/* Where a row's T + 1 tokens begin. */
uint64_t wf_batch_position(const struct wf_batch *batch, uint64_t step, uint32_t row);

/* The rows of the micro-th of n_micros in a step of `rows`: in order, the first ones get what is
 * over. */
static inline struct wf_range wf_micro_range(uint32_t rows, uint32_t n_micros, uint32_t micro)
{
    return wf_range_part(rows, n_micros, micro);
}

/* Where index i of 0 .. n-1 comes to stand in a random order of them: a bijection for each
 * (seed, epoch), computed without a table.  i < n. */
uint64_t wf_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
