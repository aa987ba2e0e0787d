/* Exponentials, logarithms and trigonometric functions whose results have the same bits on
 * every machine.
 *
 * Those of libm differ: glibc selects them by the CPU's instructions, and other libraries
 * compute them in other ways.  These functions consist of additions, multiplications and
 * divisions, which IEEE 754 defines to the last bit.  The error is below two units in the last
 * place of a double, except as stated.  Functions that IEEE 754 defines (sqrt, fma, floor) can
 * be taken from libm. */
#ifndef BASE_MATH_H
#define BASE_MATH_H

#include <stdint.h>

/* Returns e^x. */
double wf_math_exp(double x);

/* Returns e^x - 1, accurate also near zero; the error is below four units. */
double wf_math_expm1(double x);

/* Returns the natural logarithm: -infinity at 0, NaN for negative numbers. */
double wf_math_log(double x);

/* Return the cosine and the sine of an angle in radians.  The error is below three units, and
 * grows with the angle from 2^20 on. */
double wf_math_cos(double x);
double wf_math_sin(double x);

/* Returns x^n by repeated multiplication; the relative error is at most n * 2^-52. */
double wf_math_power(double x, uint64_t n);

/* Returns x^y for x > 0.  The relative error is about 2^-52 times the magnitude of y log(x). */
double wf_math_pow(double x, double y);

#endif
