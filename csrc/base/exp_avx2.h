/* exp.h, eight at a time. */
#ifndef LB_EXP_AVX2_H
#define LB_EXP_AVX2_H

#include <immintrin.h>

static inline __m256 lb_exp8(__m256 x) {
    const __m256 inside = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_GE_OQ);
    const __m256 t = _mm256_and_ps(x, inside); /* values outside would leave the range of the conversion */
    const __m256i exponent = _mm256_cvtps_epi32(_mm256_mul_ps(t, _mm256_set1_ps(1.44269502f)));
    const __m256 n = _mm256_cvtepi32_ps(exponent);
    const __m256 r =
        _mm256_sub_ps(_mm256_sub_ps(t, _mm256_mul_ps(n, _mm256_set1_ps(0.693359375f))), _mm256_mul_ps(n, _mm256_set1_ps(-2.12194440e-4f)));
    static const float rest[] = {1.39819994e-3f, 8.33345205e-3f, 4.16657962e-2f, 1.66666657e-1f, 0.5f};
    __m256 p = _mm256_set1_ps(1.98756912e-4f);
    for (int i = 0; i < 5; i++)
        p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(rest[i]));
    const __m256 e = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r), _mm256_set1_ps(1.0f));
    const __m256i y = _mm256_add_epi32(_mm256_castps_si256(e), _mm256_slli_epi32(exponent, 23));
    return _mm256_and_ps(_mm256_castsi256_ps(y), inside);
}

static inline __m256 lb_negative_magnitude8(__m256 x) {
    return _mm256_or_ps(x, _mm256_set1_ps(-0.0f));
}

static inline __m256 lb_sigmoid8(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), e = lb_exp8(lb_negative_magnitude8(x));
    const __m256 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_div_ps(_mm256_blendv_ps(one, e, negative), _mm256_add_ps(one, e));
}

static inline __m256 lb_tanh8(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), a = lb_negative_magnitude8(x), e = lb_exp8(_mm256_add_ps(a, a));
    const __m256 t = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    const __m256 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_xor_ps(t, _mm256_and_ps(negative, _mm256_set1_ps(-0.0f)));
}

#endif
