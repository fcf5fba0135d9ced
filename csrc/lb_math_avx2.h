/* Eight floats at a time: what float kernels on AVX2 have in common. */
#ifndef LB_MATH_AVX2_H
#define LB_MATH_AVX2_H

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

#endif
