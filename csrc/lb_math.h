/* Functions of floats in portable C, without libm. Vector kernels use the same polynomials. */
#ifndef LB_MATH_H
#define LB_MATH_H

#include "lb_float.h"

/* The square root, rounded correctly, digit by digit; NaN below 0. */
static inline float lb_sqrtf(float v) {
    if (!(v > 0.0f) || v > FLT_MAX)
        return v < 0.0f ? lb_of_bits(0x7FC00000u) : v; /* NaN, zeros and infinity are their own */
    uint32_t bits = lb_bits_of(v);
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    uint32_t m = bits & 0x7FFFFF;
    if (exponent == -127)
        for (exponent = -126; !(m & 0x800000); exponent--)
            m <<= 1;
    m |= 0x800000;
    if (exponent & 1)
        m <<= 1, exponent--;
    uint32_t root = 0, rest = 0; /* 25 digits of the root of m * 2^25, the last one to round with */
    for (int i = 0; i < 25; i++) {
        rest = rest << 2 | (m >> 23 & 3);
        m <<= 2;
        const uint32_t trial = root << 2 | 1;
        root <<= 1;
        if (rest >= trial)
            rest -= trial, root |= 1;
    }
    const uint32_t rounded = (root + 1) >> 1; /* an exact tie would need a root of 25 digits whose square has 24 */
    return lb_of_bits((uint32_t)((exponent / 2 + 126) << 23) + rounded);
}

#endif
