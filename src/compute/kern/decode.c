/* Which instructions decoding runs with, and how fast memory is read. */
#include "compute/kern/decode.h"

#include "base/clock.h"
#include "base/size.h"
#include "compute/kern/decode_priv.h"

extern const struct wf_decode_ops wf_decode_ops_portable;
#if defined(__x86_64__)
extern const struct wf_decode_ops wf_decode_ops_avx2, wf_decode_ops_avx512;
#endif

static const struct wf_decode_ops *ops_of(enum wf_isa isa)
{
#if defined(__x86_64__)
    if (isa >= WF_ISA_AVX512)
        return &wf_decode_ops_avx512;
    if (isa == WF_ISA_AVX2)
        return &wf_decode_ops_avx2;
#endif
    return isa == WF_ISA_PORTABLE ? &wf_decode_ops_portable : NULL;
}

void wf_gemv_rows(const struct wf_gemv *g, size_t row0, size_t row1)
{
    ops_of(wf_isa())->gemv(g, row0, row1);
}

void wf_attend(const struct wf_attend *a)
{
    ops_of(wf_isa())->attend(a);
}

bool wf_gemv_rows_of(enum wf_isa isa, const struct wf_gemv *g, size_t row0, size_t row1)
{
    if (isa > wf_isa() || ops_of(isa) == NULL)
        return false;
    ops_of(isa)->gemv(g, row0, row1);
    return true;
}

bool wf_attend_of(enum wf_isa isa, const struct wf_attend *a)
{
    if (isa > wf_isa() || ops_of(isa) == NULL)
        return false;
    ops_of(isa)->attend(a);
    return true;
}

/* -- how fast memory is read ---------------------------------------------------------------- */

enum { READ_FLOATS = 1 << 16 }; /* of one task */

struct read_job {
    const float *at;
    size_t n;
    float kept[WF_MAX_THREADS]; /* a result for each worker, so that none is left out */
};

static void read_piece(void *arg, size_t task, unsigned worker)
{
    struct read_job *j = arg;
    size_t from = task * READ_FLOATS;
    j->kept[worker] +=
        ops_of(wf_isa())->sum(j->at + from, wf_size_min(READ_FLOATS, j->n - from));
}

double wf_read_bandwidth(struct wf_pool *pool, const float *at, size_t n)
{
    struct read_job job = {.at = at, .n = n};
    int64_t begin = wf_clock_ns();
    wf_pool_run(pool, (n + READ_FLOATS - 1) / READ_FLOATS, read_piece, &job);
    int64_t took = wf_clock_ns() - begin;
    return (double)n * sizeof *at / ((double)(took > 0 ? took : 1) * 1e-9);
}
