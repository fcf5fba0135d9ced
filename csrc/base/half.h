/* Floats of 16 bits as bits: IEEE half precision, and bfloat16, the upper half of a float. */
#ifndef LB_HALF_H
#define LB_HALF_H

#include "base/numerics.h"

/* Exact. NaN becomes a quiet one, with its payload. */
static inline float lb_f32_of_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
    if (exponent == 31)
        return lb_f32_of_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
    if (exponent)
        return lb_f32_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
    const float small = (float)fraction * 0x1p-24f; /* subnormal there, normal here */
    return lb_f32_of_bits(lb_f32_bits(small) | sign);
}

/* To the nearest, ties to even; beyond the largest half infinity. NaN becomes a quiet one. */
static inline uint16_t lb_f16_of_f32(float v) {
    const uint32_t bits = lb_f32_bits(v), magnitude = bits & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below 2^-14: the sum's last bit weighs 2^-24 */
        const uint32_t sum = lb_f32_bits(lb_f32_of_bits(magnitude) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - 0x1c000u));
}

static inline float lb_f32_of_bf16(uint16_t h) {
    return lb_f32_of_bits((uint32_t)h << 16);
}

#endif
