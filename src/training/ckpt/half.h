/* Converts between fp32 and the two-byte types BF16 and F16.  Widening is exact; narrowing
 * rounds to nearest even. */
#ifndef TRAINING_CKPT_HALF_H
#define TRAINING_CKPT_HALF_H

#include <stdint.h>
#include <string.h>

/* Returns the fp32 number that has the bit pattern `bits`. */
static inline float wf_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Widens BF16 to fp32.  A BF16 number is the upper 16 bits of an fp32 number. */
static inline float wf_f32_from_bf16(uint16_t half)
{
    return wf_f32_from_bits((uint32_t)half << 16);
}

/* Widens F16 to fp32.  F16 has a 5-bit exponent with a bias of 15 and a 10-bit fraction. */
static inline float wf_f32_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) { /* subnormal: fraction * 2^-24, which is exact in fp32 */
        float value = (float)fraction * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    exponent = exponent == 0x1f ? 0xff : exponent + (127 - 15);
    return wf_f32_from_bits(sign | exponent << 23 | fraction << 13);
}

/* Rounds fp32 to BF16.  A signaling NaN becomes a quiet NaN: without its low bits it could
 * otherwise become infinity. */
static inline uint16_t wf_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
