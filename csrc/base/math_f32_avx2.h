/* Eight floats at a time: functions that float kernels on AVX2 share. */
#ifndef LB_MATH_F32_AVX2_H
#define LB_MATH_F32_AVX2_H

#include "base/scalar_f32.h"

#include <immintrin.h>

/* NaN stays: the second operand is given back where the comparison is unordered. */
static inline __m256 lb_clamp_ps(__m256 v, __m256 lo, __m256 hi) {
    return _mm256_min_ps(hi, _mm256_max_ps(lo, v));
}

/* The larger one, NaN if one is NaN. */
static inline __m256 lb_max_ps(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline __m256 lb_min_ps(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline __m256 lb_abs_ps(__m256 v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

static inline void lb_store_first(float *to, __m256 v) {
    _mm_store_ss(to, _mm256_castps256_ps128(v));
}

/* The sum of all eight, in one order. */
static inline float lb_sum_ps(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#define V __m256
#define FN(name) lb_##name##_ps
#define K(c) _mm256_set1_ps(c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define DIV(a, b) _mm256_div_ps(a, b)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define LESS(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define LESS_EQUAL(a, b) _mm256_cmp_ps(a, b, _CMP_LE_OQ)
#define EQUAL(a, b) _mm256_cmp_ps(a, b, _CMP_EQ_OQ)
#define PICK(mask, a, b) _mm256_blendv_ps(b, a, mask)
#define CLAMP(v, lo, hi) lb_clamp_ps(v, lo, hi)
#define ABS(v) lb_abs_ps(v)
#define SIGNED(v, s) _mm256_or_ps(lb_abs_ps(v), _mm256_and_ps(s, _mm256_set1_ps(-0.0f)))
#define ROUND(v) _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define POW2(n) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23))
#define SPLIT(v, e, m) lb_split_ps(v, e, m)

static inline void lb_split_ps(__m256 v, __m256 *e, __m256 *m) {
    const __m256i root = _mm256_set1_epi32(0x3F3504F3); /* sqrt(1/2) */
    const __m256i above = _mm256_sub_epi32(_mm256_castps_si256(v), root);
    *e = _mm256_cvtepi32_ps(_mm256_srai_epi32(above, 23));
    *m = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(above, _mm256_set1_epi32(0x7FFFFF)), root));
}

#include "base/math_f32_body.h"

#endif
