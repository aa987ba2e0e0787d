/* Loads and stores of rows of either type as vectors of fp32, and loops over them. */
#ifndef COMPUTE_KERN_FAST_ROWS_H
#define COMPUTE_KERN_FAST_ROWS_H

#include "compute/kern/fast/vec.h"

/* Loads columns c .. c + n of the first row of m, n <= VEC.  The type is checked per vector: a
 * well-predicted branch is free beside the memory access. */
VEC_INLINE vec row_load(struct wf_mat m, size_t c, size_t n)
{
    if (m.type == WF_DTYPE_F32) {
        const float *p = wf_mat_f32(m, 0, c);
        return n == VEC ? vec_load(p) : vec_load_part(p, n);
    }
    const wf_bf16 *p = wf_mat_bf16(m, 0, c);
    return n == VEC ? vec_load_bf16(p) : vec_load_part_bf16(p, n);
}

VEC_INLINE void row_store(struct wf_mat m, size_t c, size_t n, vec v)
{
    if (m.type == WF_DTYPE_F32) {
        float *p = wf_mat_f32(m, 0, c);
        if (n == VEC)
            vec_store(p, v);
        else
            vec_store_part(p, v, n);
        return;
    }
    wf_bf16 *p = wf_mat_bf16(m, 0, c);
    if (n == VEC)
        vec_store_bf16(p, v);
    else
        vec_store_part_bf16(p, v, n);
}

/* Loads n columns of a row of fp32, as row_load() does. */
VEC_INLINE vec f32_load(const float *row, size_t c, size_t n)
{
    return n == VEC ? vec_load(row + c) : vec_load_part(row + c, n);
}

/* Stores n columns of a row of fp32, as row_store() does. */
VEC_INLINE void f32_store(float *row, size_t c, size_t n, vec v)
{
    if (n == VEC)
        vec_store(row + c, v);
    else
        vec_store_part(row + c, v, n);
}

/* Returns row r of m; an absent matrix stays absent. */
VEC_INLINE struct wf_mat row_of(struct wf_mat m, size_t r)
{
    return m.at == NULL ? m : wf_mat_at(m, r, 0);
}

/* Makes `call` for each vector of a row: columns c .. c + n, where n is the constant VEC except
 * for the remainder at the end. */
#define EACH_VEC(c, n, cols, call)                                                             \
    do {                                                                                       \
        size_t c = 0, n = VEC;                                                                 \
        for (; c + VEC <= (cols); c += VEC)                                                    \
            call;                                                                              \
        if (c < (cols)) {                                                                      \
            n = (cols)-c;                                                                      \
            call;                                                                              \
        }                                                                                      \
    } while (0)

/* Like EACH_VEC(), for sums.  Four groups of WIDE partial sums take turns, so that an addition
 * does not wait for the previous one; columns past the last 4 * WIDE belong to the first group.
 * The constant k < SUMS selects the vector of partial sums. */
enum { GROUPS = 4, SUMS = GROUPS * PARTS };
#define SUM_STEP(c, k, index, call)                                                            \
    {                                                                                          \
        enum { k = index };                                                                    \
        call;                                                                                  \
    }                                                                                          \
    c += VEC
#define REST_STEP(c, n, k, index, cols, call)                                                  \
    if (c < (cols)) {                                                                          \
        n = (cols)-c < VEC ? (cols)-c : VEC;                                                   \
        SUM_STEP(c, k, index, call);                                                           \
    }
#if defined(__AVX512F__)
#define GROUP_STEP(c, k, group, call) SUM_STEP(c, k, group, call)
#define GROUP_REST(c, n, k, cols, call) REST_STEP(c, n, k, 0, cols, call)
#elif defined(__AVX2__)
#define GROUP_STEP(c, k, group, call)                                                          \
    SUM_STEP(c, k, 2 * group, call);                                                           \
    SUM_STEP(c, k, 2 * group + 1, call)
#define GROUP_REST(c, n, k, cols, call)                                                        \
    REST_STEP(c, n, k, 0, cols, call)                                                          \
    REST_STEP(c, n, k, 1, cols, call)
#else
#define GROUP_STEP(c, k, group, call)                                                          \
    SUM_STEP(c, k, 4 * group, call);                                                           \
    SUM_STEP(c, k, 4 * group + 1, call);                                                       \
    SUM_STEP(c, k, 4 * group + 2, call);                                                       \
    SUM_STEP(c, k, 4 * group + 3, call)
#define GROUP_REST(c, n, k, cols, call)                                                        \
    REST_STEP(c, n, k, 0, cols, call)                                                          \
    REST_STEP(c, n, k, 1, cols, call)                                                          \
    REST_STEP(c, n, k, 2, cols, call)                                                          \
    REST_STEP(c, n, k, 3, cols, call)
#endif
#define EACH_VEC_SUMMED(c, n, k, cols, call)                                                   \
    do {                                                                                       \
        size_t c = 0, n = VEC;                                                                 \
        while (c + GROUPS * WIDE <= (cols)) {                                                  \
            GROUP_STEP(c, k, 0, call);                                                         \
            GROUP_STEP(c, k, 1, call);                                                         \
            GROUP_STEP(c, k, 2, call);                                                         \
            GROUP_STEP(c, k, 3, call);                                                         \
        }                                                                                      \
        while (c + WIDE <= (cols)) {                                                           \
            GROUP_STEP(c, k, 0, call);                                                         \
        }                                                                                      \
        GROUP_REST(c, n, k, cols, call)                                                        \
    } while (0)

VEC_INLINE float sum_groups(const vec sums[SUMS])
{
    vec parts[PARTS];
#pragma GCC unroll 4
    for (int i = 0; i < PARTS; i++)
        parts[i] = (sums[i] + sums[PARTS + i]) + (sums[2 * PARTS + i] + sums[3 * PARTS + i]);
    return wide_sum(parts);
}

#endif
