/* Computes the position of each row of a step, in file order or in a random order, and reads
 * the tokens of the rows. */
#include "training/data/batch.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

enum weft_status wf_batch_init(struct wf_batch *batch, const struct wf_shards *shards,
                               uint32_t rows, uint32_t seq, uint32_t vocab, bool shuffle,
                               uint64_t seed, struct weft_error *err)
{
    if (rows == 0 || seq == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "a step needs at least 1 row of 1 token");

    uint64_t total = wf_shards_n_tokens(shards);
    /* Cannot overflow: both factors have 32 bits. */
    uint64_t unit = shuffle ? seq : (uint64_t)rows * seq;
    uint64_t n = (total - 1) / unit; /* total > 0, because empty shards cannot be opened */
    if (n == 0)
        return WEFT_FAIL(
            err, WEFT_DATA,
            "%.200s%s: %" PRIu64 " tokens are too few for %s (%" PRIu64
            " and one more are needed); use more text, or a smaller data.batch or data.seq",
            wf_shards_path(shards, 0), wf_shards_n_files(shards) > 1 ? " and the others" : "",
            total, shuffle ? "one sequence" : "one step", unit);
    *batch = (struct wf_batch){shards, rows, seq, vocab, shuffle, seed, n};
    return WEFT_OK;
}

/* -- a random order without a table -------------------------------------------------------- */

/* Four rounds suffice; the cost of two more is negligible compared with a read. */
enum { ROUNDS = 6 };

/* Applies a Feistel network to a number x of 2 * half bits.  The network is a bijection for
 * every round function, because each round can be inverted. */
static uint64_t feistel(uint64_t key, unsigned half, uint64_t x)
{
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (wf_random_u64(key, round, right) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t wf_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i)
{
    /* "shuffle" in ASCII: differs from all other random streams */
    const uint64_t stream = UINT64_C(0x73687566666c65);
    uint64_t key = wf_random_u64(seed, stream, epoch);
    unsigned half = 1;
    while (half < 32 && (n - 1) >> 2 * half != 0)
        half++;
    /* Cycle walking: a result outside of 0 .. n-1 is permuted again until it is in range.  The
     * result is a bijection on 0 .. n-1, because the walk follows the cycle of i in the
     * permutation.  The domain of the network has at most max(4n, 4) numbers, so few iterations
     * are needed. */
    do
        i = feistel(key, half, i);
    while (i >= n);
    return i;
}

/* -- rows ---------------------------------------------------------------------------------- */

uint64_t wf_batch_position(const struct wf_batch *b, uint64_t step, uint32_t row)
{
    if (!b->shuffle)
        return (step % b->epoch_len * b->rows + row) * b->seq;
    /* The product could overflow only in a run that reads 2^64 rows. */
    uint64_t window = step * b->rows + row;
    return wf_permute(b->seed, window / b->epoch_len, b->epoch_len, window % b->epoch_len) *
           b->seq;
}

enum weft_status wf_batch_read(const struct wf_batch *b, uint64_t step, uint32_t row0,
                               uint32_t rows, int32_t *inputs, int32_t *targets,
                               struct weft_error *err)
{
    if (row0 > b->rows || rows > b->rows - row0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rows %u to %u of a step of %u", row0, row0 + rows,
                         b->rows);

    size_t seq = b->seq;
    for (uint32_t r = 0; r < rows; r++) {
        uint64_t at = wf_batch_position(b, step, row0 + r);
        int32_t *in = inputs + r * seq, *target = targets + r * seq;
        WEFT_TRY(wf_shards_read(b->shards, at + 1, seq, b->vocab, target, err));
        WEFT_TRY(wf_shards_read(b->shards, at, 1, b->vocab, in, err));
        memcpy(in + 1, target, (seq - 1) * sizeof *in);
        WEFT_TRY(wf_shards_mask(b->shards, at + 1, seq, target, err));
    }
    return WEFT_OK;
}
