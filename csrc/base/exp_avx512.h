/* exp.h, sixteen at a time. */
#ifndef LB_EXP_AVX512_H
#define LB_EXP_AVX512_H

#include "base/avx512.h"

static inline __m512 lb_exp_of_16(__m512 x) {
    const __mmask16 inside = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_GE_OQ);
    const __m512 t = _mm512_maskz_mov_ps(inside, x); /* values outside would leave the range of the conversion */
    const __m512i exponent = _mm512_cvtps_epi32(_mm512_mul_ps(t, _mm512_set1_ps(1.44269502f)));
    const __m512 n = _mm512_cvtepi32_ps(exponent);
    const __m512 r =
        _mm512_sub_ps(_mm512_sub_ps(t, _mm512_mul_ps(n, _mm512_set1_ps(0.693359375f))), _mm512_mul_ps(n, _mm512_set1_ps(-2.12194440e-4f)));
    static const float rest[] = {1.39819994e-3f, 8.33345205e-3f, 4.16657962e-2f, 1.66666657e-1f, 0.5f};
    __m512 p = _mm512_set1_ps(1.98756912e-4f);
    for (int i = 0; i < 5; i++)
        p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(rest[i]));
    const __m512 e = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r), _mm512_set1_ps(1.0f));
    const __m512i y = _mm512_add_epi32(_mm512_castps_si512(e), _mm512_slli_epi32(exponent, 23));
    return _mm512_maskz_mov_ps(inside, _mm512_castsi512_ps(y));
}

static inline __m512 lb_negative_magnitude_of_16(__m512 x) {
    return _mm512_or_ps(x, _mm512_set1_ps(-0.0f));
}

static inline __m512 lb_sigmoid_of_16(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), e = lb_exp_of_16(lb_negative_magnitude_of_16(x));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_div_ps(_mm512_mask_mov_ps(one, negative, e), _mm512_add_ps(one, e));
}

static inline __m512 lb_tanh_of_16(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), a = lb_negative_magnitude_of_16(x), e = lb_exp_of_16(_mm512_add_ps(a, a));
    const __m512 t = _mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(t, negative, _mm512_xor_ps(t, _mm512_set1_ps(-0.0f)));
}

#endif
