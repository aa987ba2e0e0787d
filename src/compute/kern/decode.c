/* Which instructions decoding runs with, and how fast memory is read. */
#include "compute/kern/decode.h"

#include "base/clock.h"
#include "base/size.h"
#include "compute/kern/decode_priv.h"

extern const struct weft_decode_ops weft_decode_ops_portable;
#if defined(__x86_64__)
extern const struct weft_decode_ops weft_decode_ops_avx2, weft_decode_ops_avx512;
#endif

static const struct weft_decode_ops *ops_of(enum weft_isa isa)
{
#if defined(__x86_64__)
    if (isa >= WEFT_ISA_AVX512)
        return &weft_decode_ops_avx512;
    if (isa == WEFT_ISA_AVX2)
        return &weft_decode_ops_avx2;
#endif
    return isa == WEFT_ISA_PORTABLE ? &weft_decode_ops_portable : NULL;
}

void weft_gemv_rows(const struct weft_gemv *g, size_t row0, size_t row1)
{
    ops_of(weft_isa())->gemv(g, row0, row1);
}

void weft_attend(const struct weft_attend *a)
{
    ops_of(weft_isa())->attend(a);
}

bool weft_gemv_rows_of(enum weft_isa isa, const struct weft_gemv *g, size_t row0, size_t row1)
{
    if (isa > weft_isa() || ops_of(isa) == NULL)
        return false;
    ops_of(isa)->gemv(g, row0, row1);
    return true;
}

bool weft_attend_of(enum weft_isa isa, const struct weft_attend *a)
{
    if (isa > weft_isa() || ops_of(isa) == NULL)
        return false;
    ops_of(isa)->attend(a);
    return true;
}

/* -- how fast memory is read ---------------------------------------------------------------- */

enum { READ_FLOATS = 1 << 16 }; /* of one task */

struct read_job {
    const float *at;
    size_t n;
    float kept[WEFT_MAX_THREADS]; /* a result for each worker, so that none is left out */
};

static void read_piece(void *arg, size_t task, unsigned worker)
{
    struct read_job *j = arg;
    size_t from = task * READ_FLOATS;
    j->kept[worker] +=
        ops_of(weft_isa())->sum(j->at + from, weft_size_min(READ_FLOATS, j->n - from));
}

double weft_read_rate(struct weft_pool *pool, const float *at, size_t n)
{
    struct read_job job = {.at = at, .n = n};
    int64_t begin = weft_clock_ns();
    weft_pool_run(pool, (n + READ_FLOATS - 1) / READ_FLOATS, read_piece, &job);
    int64_t took = weft_clock_ns() - begin;
    return (double)n * sizeof *at / ((double)(took > 0 ? took : 1) * 1e-9);
}
