/* Arithmetic on sizes.  Code that computes with sizes from files or users must use the checked
 * functions wf_size_mul() and wf_size_add(). */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Multiplies a and b; returns false on overflow. */
static inline bool wf_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Adds a and b; returns false on overflow. */
static inline bool wf_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Returns the smaller size. */
static inline size_t wf_size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the larger size. */
static inline size_t wf_size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Returns n rounded up to a multiple of `unit`. */
static inline size_t wf_size_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Returns the smaller number.  Unlike fmin(), this function is inline and does not handle
 * NaN. */
static inline double wf_double_min(double a, double b)
{
    return a < b ? a : b;
}

/* Returns the larger number.  Unlike fmax(), this function is inline and does not handle
 * NaN. */
static inline double wf_double_max(double a, double b)
{
    return a > b ? a : b;
}

struct wf_range {
    size_t begin, end;
};

/* Divides `total` elements into n consecutive ranges and returns range i.  The first total % n
 * ranges have one more element than the others. */
static inline struct wf_range wf_range_part(size_t total, size_t n, size_t i)
{
    size_t q = total / n, r = total % n;
    size_t begin = i * q + (i < r ? i : r);
    return (struct wf_range){begin, begin + q + (i < r)};
}

#endif
