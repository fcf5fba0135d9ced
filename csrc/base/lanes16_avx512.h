/* Sixteen floats at a time, in one register: the words of kernels that promise bits for 16 lanes (lanes16_avx2.h has the same). */
#ifndef LB_LANES16_AVX512_H
#define LB_LANES16_AVX512_H

#include "base/exp_avx512.h"
#include "base/reduce_avx2.h"
#include "base/unroll.h"
#include "blocks/block_record.h"

#include <string.h>

typedef __m512 lb_l16;

#define LB_L16_REGISTERS 32

#define lb_l16_load(from) _mm512_loadu_ps(from)
#define lb_l16_store(to, v) _mm512_storeu_ps(to, v)
#define lb_l16_all(x) _mm512_set1_ps(x)
#define lb_l16_zero() _mm512_setzero_ps()
#define lb_l16_add(a, b) _mm512_add_ps(a, b)
#define lb_l16_sub(a, b) _mm512_sub_ps(a, b)
#define lb_l16_mul(a, b) _mm512_mul_ps(a, b)
#define lb_l16_div(a, b) _mm512_div_ps(a, b)
#define lb_l16_max(a, b) _mm512_max_ps(a, b)
#define lb_l16_exp(v) lb_exp_of_16(v)
#define lb_l16_sigmoid(v) lb_sigmoid_of_16(v)
#define lb_l16_tanh(v) lb_tanh_of_16(v)

/* The first n of 0 ... 16; the others are 0. */
LB_INLINE lb_l16 lb_l16_get(const float *from, ptrdiff_t n) {
    return _mm512_maskz_loadu_ps(lb_first16(n), from);
}

LB_INLINE void lb_l16_put(float *to, lb_l16 v, ptrdiff_t n) {
    _mm512_mask_storeu_ps(to, lb_first16(n), v);
}

/* NaN becomes -infinity. */
LB_INLINE lb_l16 lb_l16_number(lb_l16 v) {
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    return _mm512_mask_mov_ps(_mm512_castsi512_ps(_mm512_set1_epi32((int32_t)0xff800000u)), number, v);
}

LB_INLINE lb_l16 lb_l16_halves(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* bfloat16: the upper halves of floats. */
LB_INLINE lb_l16 lb_l16_bf16(const uint16_t *from) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from)), 16));
}

LB_INLINE void lb_l16_put_halves(uint16_t *to, lb_l16 v) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Lanes 8 to 15. */
LB_INLINE __m256 lb_upper8(__m512 v) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}

/* Lanes 8 apart are added, 4, 2, 1. */
LB_INLINE float lb_l16_sum(lb_l16 v) {
    return lb_reduce_add8(_mm256_add_ps(_mm512_castps512_ps256(v), lb_upper8(v)));
}

/* The largest of all; no NaN. */
LB_INLINE float lb_l16_most(lb_l16 v) {
    return lb_reduce_max8(_mm256_max_ps(_mm512_castps512_ps256(v), lb_upper8(v)));
}

/* A block of 32 as a record (blocks.h). */
LB_INLINE void lb_l16_quantize(lb_l16 a, lb_l16 b, uint8_t *record) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    const __m512i most =
        _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude), _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    const __m256i eight = _mm256_max_epi32(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    lb_block_record r;
    float factor;
    r.scale = lb_block_scale((uint32_t)lb_reduce_max8_s32(eight), &factor);
    __m512i q[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (factor > 0.0f)
        q[0] = _mm512_cvtps_epi32(_mm512_mul_ps(a, _mm512_set1_ps(factor))),
        q[1] = _mm512_cvtps_epi32(_mm512_mul_ps(b, _mm512_set1_ps(factor)));
    const int32_t half[2] = {_mm512_reduce_add_epi32(q[0]), _mm512_reduce_add_epi32(q[1])};
    r.half[0] = (int16_t)half[0], r.half[1] = (int16_t)half[1];
    r.sum = half[0] + half[1];
    r.scaled_sum = r.scale * (float)r.sum;
    _mm_storeu_si128((__m128i *)(void *)record, _mm512_cvtepi32_epi8(q[0]));
    _mm_storeu_si128((__m128i *)(void *)(record + 16), _mm512_cvtepi32_epi8(q[1]));
    memcpy(record + 32, (const char *)&r + 32, 16);
}

#endif
