/* The arithmetic contract in C: round, clamp, quantize, requantize. The only copy; kernels on vector units compute the same bits.
 *
 * Needs IEEE fp32 without excess precision, round-to-nearest-even as the current rounding mode, and -ffp-contract=off: a
 * multiply fused with the add behind it would round once where the contract rounds twice.
 */
#ifndef LB_NUMERICS_H
#define LB_NUMERICS_H

#include <float.h>
#include <stdint.h>

_Static_assert(FLT_EVAL_METHOD == 0, "fp32 must be computed in fp32 (on 32-bit x86: -msse2 -mfpmath=sse)");
#ifdef __FAST_MATH__
#error "-ffast-math breaks the arithmetic contract"
#endif

static inline int32_t lb_clamp(int32_t v, int32_t lo, int32_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* v to the nearest integer, ties to even; |v| <= 2^22. Adding 1.5 * 2^23 leaves a sum whose last bit weighs one, so the adder
 * does the rounding: no libm call, and the compiler may vectorize it. */
static inline int32_t lb_rne(float v) {
    const float magic = 12582912.0f;
    return (int32_t)((v + magic) - magic);
}

/* clamp(rne(v) + zero_point, lo, hi) for every v; NaN counts as 0. |lo|, |hi|, |zero_point| < 2^20. The bounds are integers, so
 * clamping before rounding gives the same answer, and keeps the conversion to int32 in range. */
static inline int32_t lb_round_clamp(float v, int32_t zero_point, int32_t lo, int32_t hi) {
    const float fmin = (float)(lo - zero_point), fmax = (float)(hi - zero_point);
    v = v == v ? v : 0.0f;
    v = v < fmin ? fmin : v;
    v = v > fmax ? fmax : v;
    return lb_rne(v) + zero_point;
}

/* clamp(rne(x / scale) + zero_point): fp32 division. */
static inline int32_t lb_quantize(float x, float scale, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_round_clamp(x / scale, zero_point, lo, hi);
}

/* scale * (q - zero_point): the difference is exact, one fp32 multiply. */
static inline float lb_dequantize(int32_t q, float scale, int32_t zero_point) {
    return scale * (float)(q - zero_point);
}

/* clamp(rne((fl32(a) * ma + offset) + fl32(b) * mb)): the offset holds the zero points, so that a sum is rounded with them in it. */
static inline int32_t lb_add(int32_t a, int32_t b, float ma, float mb, float offset, int32_t lo, int32_t hi) {
    return lb_round_clamp(((float)a * ma + offset) + (float)b * mb, 0, lo, hi);
}

/* clamp(rne(fl32(acc) * multiplier) + zero_point): one rounding to fp32, one fp32 multiply. A fused ReLU or clip is lo and hi. */
static inline int32_t lb_requantize(int32_t acc, float multiplier, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_round_clamp((float)acc * multiplier, zero_point, lo, hi);
}

#endif
