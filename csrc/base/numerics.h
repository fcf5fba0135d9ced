/* The arithmetic contract in C: round, clamp, quantize, requantize. The only copy; kernels on vector units compute the same bits.
 *
 * Needs IEEE fp32 without excess precision, round-to-nearest-even as the current rounding mode, and -ffp-contract=off: a
 * multiply fused with the add after it would round once where the contract rounds twice.
 */
#ifndef LB_NUMERICS_H
#define LB_NUMERICS_H

#include <stdint.h>

#ifdef __cplusplus /* programs in C++ include this by the header of a generated network */
#define LB_STATIC_ASSERT static_assert
#else
#define LB_STATIC_ASSERT _Static_assert
#endif

static inline int32_t lb_clamp(int32_t v, int32_t lo, int32_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* Real numbers, and the operations on them that kernels of integer networks need: float and its operators, or, with LB_NO_FLOAT, bits in a
 * struct and functions on integers (soft.h). Kernels that use nothing else compute the same without a floating-point unit. */
#ifdef LB_NO_FLOAT

#include "base/soft.h"

typedef struct {
    uint32_t bits;
} lb_f32;

static inline lb_f32 lb_f32_of_bits(uint32_t bits) {
    const lb_f32 v = {bits};
    return v;
}

static inline lb_f32 lb_f32_from_s32(int32_t v) {
    return lb_f32_of_bits(lb_soft_from_s64(v));
}

static inline lb_f32 lb_f32_from_s64(int64_t v) {
    return lb_f32_of_bits(lb_soft_from_s64(v));
}

static inline lb_f32 lb_f32_add(lb_f32 a, lb_f32 b) {
    return lb_f32_of_bits(lb_soft_add(a.bits, b.bits));
}

static inline lb_f32 lb_f32_sub(lb_f32 a, lb_f32 b) {
    return lb_f32_of_bits(lb_soft_add(a.bits, b.bits ^ 0x80000000u));
}

static inline lb_f32 lb_f32_mul(lb_f32 a, lb_f32 b) {
    return lb_f32_of_bits(lb_soft_mul(a.bits, b.bits));
}

static inline lb_f32 lb_f32_div(lb_f32 a, lb_f32 b) {
    return lb_f32_of_bits(lb_soft_div(a.bits, b.bits));
}

static inline uint32_t lb_f32_bits(lb_f32 v) {
    return v.bits;
}

static inline int32_t lb_f32_less(lb_f32 a, lb_f32 b) {
    return lb_soft_less(a.bits, b.bits);
}

static inline int32_t lb_round_clamp(lb_f32 v, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_soft_round_clamp(v.bits, zero_point, lo, hi);
}

static inline int32_t lb_requantize(int32_t acc, lb_f32 multiplier, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_soft_requantize(acc, multiplier.bits, zero_point, lo, hi);
}

#else

#include <float.h>
#include <string.h>

/* 16 is 0 for float: it is _Float16 that is computed as such */
LB_STATIC_ASSERT(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16, "fp32 must be computed in fp32 (on 32-bit x86: -msse2 -mfpmath=sse)");
#ifdef __FAST_MATH__
#error "-ffast-math breaks the arithmetic contract"
#endif

typedef float lb_f32;

static inline lb_f32 lb_f32_from_s32(int32_t v) {
    return (float)v;
}

static inline lb_f32 lb_f32_from_s64(int64_t v) {
    return (float)v;
}

static inline lb_f32 lb_f32_add(lb_f32 a, lb_f32 b) {
    return a + b;
}

static inline lb_f32 lb_f32_sub(lb_f32 a, lb_f32 b) {
    return a - b;
}

static inline lb_f32 lb_f32_mul(lb_f32 a, lb_f32 b) {
    return a * b;
}

static inline lb_f32 lb_f32_div(lb_f32 a, lb_f32 b) {
    return a / b;
}

/* Constants of kernels are bits, which mean the same with and without floats. */
static inline lb_f32 lb_f32_of_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint32_t lb_f32_bits(lb_f32 v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* a < b; never of a NaN. */
static inline int32_t lb_f32_less(lb_f32 a, lb_f32 b) {
    return a < b;
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

/* clamp(rne(fl32(acc) * multiplier) + zero_point): one rounding to fp32, one fp32 multiply. A fused ReLU or clip is lo and hi. */
static inline int32_t lb_requantize(int32_t acc, float multiplier, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_round_clamp((float)acc * multiplier, zero_point, lo, hi);
}

#endif

static inline lb_f32 lb_f32_neg(lb_f32 v) {
    return lb_f32_of_bits(lb_f32_bits(v) ^ 0x80000000u);
}

static inline lb_f32 lb_f32_abs(lb_f32 v) {
    return lb_f32_of_bits(lb_f32_bits(v) & 0x7fffffffu);
}

static inline int32_t lb_f32_is_nan(lb_f32 v) {
    return (lb_f32_bits(v) & 0x7fffffffu) > 0x7f800000u;
}

/* clamp(rne(x / scale) + zero_point): fp32 division. */
static inline int32_t lb_quantize(lb_f32 x, lb_f32 scale, int32_t zero_point, int32_t lo, int32_t hi) {
    return lb_round_clamp(lb_f32_div(x, scale), zero_point, lo, hi);
}

/* scale * (q - zero_point): the difference is exact, one fp32 multiply. */
static inline lb_f32 lb_dequantize(int32_t q, lb_f32 scale, int32_t zero_point) {
    return lb_f32_mul(scale, lb_f32_from_s32(q - zero_point));
}

/* clamp(rne((fl32(a) * ma + offset) + fl32(b) * mb)): the offset holds the zero points, so that a sum is rounded with them in it. */
static inline int32_t lb_add(int32_t a, int32_t b, lb_f32 ma, lb_f32 mb, lb_f32 offset, int32_t lo, int32_t hi) {
    const lb_f32 left = lb_f32_add(lb_f32_mul(lb_f32_from_s32(a), ma), offset), right = lb_f32_mul(lb_f32_from_s32(b), mb);
    return lb_round_clamp(lb_f32_add(left, right), 0, lo, hi);
}

/* clamp(rne(fl32(product) * multiplier + zero_point)): rounded with the zero point in it, as a sum is. */
static inline int32_t lb_mul(int32_t product, lb_f32 multiplier, int32_t zero_point, int32_t lo, int32_t hi) {
    const lb_f32 scaled = lb_f32_mul(lb_f32_from_s32(product), multiplier);
    return lb_round_clamp(lb_f32_add(scaled, lb_f32_from_s32(zero_point)), 0, lo, hi);
}

#endif
