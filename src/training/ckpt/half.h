/* Numbers of two bytes, bit by bit: exact into fp32, to nearest even out of it. */
#ifndef TRAINING_CKPT_HALF_H
#define TRAINING_CKPT_HALF_H

#include <stdint.h>
#include <string.h>

static inline float wf_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float wf_f32_from_bf16(uint16_t half)
{
    return wf_f32_from_bits((uint32_t)half << 16);
}

/* F16 has 5 bits of exponent, biased by 15, and 10 of fraction. */
static inline float wf_f32_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent ==
        0) { /* subnormal: fraction * 2^-24, which every fp32 unit computes exactly */
        float value = (float)fraction * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    exponent = exponent == 0x1f ? 0xff : exponent + (127 - 15);
    return wf_f32_from_bits(sign | exponent << 23 | fraction << 13);
}

/* A NaN stays one, made quiet so that dropping its low bits cannot turn it into an infinity. */
static inline uint16_t wf_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
