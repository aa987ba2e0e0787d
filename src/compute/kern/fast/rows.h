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

/* Like EACH_VEC(), for sums: the constant k = 0 .. 3 selects one of four partial sums in turn,
 * so that an addition does not wait for the previous one. */
enum { LANES = 4 };
#define LANE_STEP(c, k, lane, call)                                                            \
    {                                                                                          \
        enum { k = lane };                                                                     \
        call;                                                                                  \
    }                                                                                          \
    c += VEC
#define EACH_VEC_SUMMED(c, n, k, cols, call)                                                   \
    do {                                                                                       \
        size_t c = 0, n = VEC;                                                                 \
        while (c + LANES * VEC <= (cols)) {                                                    \
            LANE_STEP(c, k, 0, call);                                                          \
            LANE_STEP(c, k, 1, call);                                                          \
            LANE_STEP(c, k, 2, call);                                                          \
            LANE_STEP(c, k, 3, call);                                                          \
        }                                                                                      \
        while (c + VEC <= (cols)) {                                                            \
            LANE_STEP(c, k, 0, call);                                                          \
        }                                                                                      \
        if (c < (cols)) {                                                                      \
            n = (cols)-c;                                                                      \
            LANE_STEP(c, k, 0, call);                                                          \
        }                                                                                      \
    } while (0)

VEC_INLINE float sum_lanes(const vec *lanes)
{
    return vec_sum((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
}

#endif
