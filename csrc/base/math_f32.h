/* Functions of floats in portable C, without libm. math_f32_body.h has their formulas. */
#ifndef LB_MATH_F32_H
#define LB_MATH_F32_H

#include "base/scalar_f32.h"

#define V float
#define FN(name) lb_##name##f
#define K(c) (c)
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define FMA(a, b, c) ((a) * (b) + (c))
#define LESS(a, b) ((a) < (b))
#define LESS_EQUAL(a, b) ((a) <= (b))
#define EQUAL(a, b) ((a) == (b))
#define PICK(mask, a, b) ((mask) ? (a) : (b))
#define CLAMP(v, lo, hi) lb_clampf(v, lo, hi)
#define ABS(v) lb_absf(v)
#define SIGNED(v, s) lb_of_bits((lb_bits_of(v) & 0x7FFFFFFFu) | (lb_bits_of(s) & 0x80000000u))
#define ROUND(v) (((v) + 12582912.0f) - 12582912.0f)
#define POW2(n) lb_of_bits((uint32_t)((int32_t)(n) + 127) << 23)
#define SPLIT(v, e, m) lb_splitf(v, e, m)

/* For every v; zeros, negative numbers and NaN give some e and m. */
static inline void lb_splitf(float v, float *e, float *m) {
    const uint32_t above = lb_bits_of(v) - 0x3F3504F3u; /* sqrt(1/2) */
    *e = (float)((int32_t)(above >> 23) - (above >> 31 ? 512 : 0));
    *m = lb_of_bits((above & 0x7FFFFFu) + 0x3F3504F3u);
}

#include "base/math_f32_body.h"

/* The square root, rounded correctly, digit by digit; NaN below 0. */
static inline float lb_sqrtf(float v) {
    if (!(v > 0.0f) || v > FLT_MAX)
        return v < 0.0f ? LB_NAN : v; /* NaN, zeros and infinity are their own */
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
