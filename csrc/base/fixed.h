/* Fixed point at the ends of a network, for programs that have no floats: Q15.16, an int32_t x that is the real number x / 65536.
 *
 * Scales are MULTIPLIER / 2^SHIFT, exactly; MULTIPLIER has at most 24 bits. Nothing here is computed in floating point if LB_NO_FLOAT is
 * defined. */
#ifndef LB_FIXED_H
#define LB_FIXED_H

#include "base/numerics.h"
#include "base/soft.h"

/* m / 2^drop in Q15.16's int32_t: to the nearest, ties to even; beyond its range the end of it. */
static inline int32_t lb_fixed_shift(int32_t negative, uint64_t m, int32_t drop) {
    const uint64_t most = (uint64_t)1 << 31;
    if (drop >= 0)
        m = lb_soft_shift(m, drop);
    else
        m = m == 0 ? 0 : drop < -31 || m > most >> -drop ? most : m << -drop;
    if (negative)
        return m >= most ? INT32_MIN : -(int32_t)m;
    return m >= most ? INT32_MAX : (int32_t)m;
}

/* The fp32 that is nearest to the fixed-point number: exactly it, up to 2^24 units. */
static inline lb_f32 lb_fixed_to_f32(int32_t x) {
    return lb_f32_mul(lb_f32_from_s32(x), lb_f32_of_bits(0x37800000u)); /* 2^-16 */
}

/* The fixed-point number that is nearest to an fp32, ties to even; NaN is 0. */
static inline int32_t lb_fixed_from_f32(lb_f32 v) {
    const uint32_t bits = lb_f32_bits(v);
    if (lb_soft_is_nan(bits))
        return 0;
    return lb_fixed_shift((int32_t)(bits >> 31), lb_soft_mantissa(bits), -lb_soft_exponent(bits) - 16);
}

/* lb_quantize of lb_fixed_to_f32(x): the integer that a program with floats makes of the same number. */
static inline int32_t lb_fixed_quantize(int32_t x, uint32_t multiplier, int32_t shift, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_quantize(lb_fixed_to_f32(x), lb_f32_of_bits(lb_soft_pack(0, -shift, multiplier)), zero_point, lo, hi);
}

/* The fixed-point number that is nearest to scale * (q - zero_point), ties to even. */
static inline int32_t lb_fixed_dequantize(int32_t q, uint32_t multiplier, int32_t shift, int32_t zero_point) {
    const int64_t steps = (int64_t)q - zero_point;
    return lb_fixed_shift(steps < 0, (uint64_t)(steps < 0 ? -steps : steps) * multiplier, shift - 16);
}

#endif
