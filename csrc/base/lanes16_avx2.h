/* Sixteen floats at a time, in two registers: the words of kernels that promise bits for 16 lanes (lanes16_avx512.h has the same). */
#ifndef LB_LANES16_AVX2_H
#define LB_LANES16_AVX2_H

#include "base/exp_avx2.h"
#include "base/reduce_avx2.h"
#include "base/unroll.h"
#include "blocks/block_record.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    __m256 a, b;
} lb_l16;

#define LB_L16_REGISTERS 8

#define LB_L16_BINARY(name, function)                                                                                                      \
    LB_INLINE lb_l16 lb_l16_##name(lb_l16 x, lb_l16 y) {                                                                                   \
        return (lb_l16){function(x.a, y.a), function(x.b, y.b)};                                                                           \
    }
LB_L16_BINARY(add, _mm256_add_ps)
LB_L16_BINARY(sub, _mm256_sub_ps)
LB_L16_BINARY(mul, _mm256_mul_ps)
LB_L16_BINARY(div, _mm256_div_ps)
LB_L16_BINARY(max, _mm256_max_ps)

#define LB_L16_UNARY(name, function)                                                                                                       \
    LB_INLINE lb_l16 lb_l16_##name(lb_l16 x) {                                                                                             \
        return (lb_l16){function(x.a), function(x.b)};                                                                                     \
    }
LB_L16_UNARY(exp, lb_exp8)
LB_L16_UNARY(sigmoid, lb_sigmoid8)
LB_L16_UNARY(tanh, lb_tanh8)

LB_INLINE lb_l16 lb_l16_load(const float *from) {
    return (lb_l16){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

LB_INLINE void lb_l16_store(float *to, lb_l16 v) {
    _mm256_storeu_ps(to, v.a);
    _mm256_storeu_ps(to + 8, v.b);
}

LB_INLINE lb_l16 lb_l16_all(float x) {
    return (lb_l16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

LB_INLINE lb_l16 lb_l16_zero(void) {
    return (lb_l16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

/* The first n of 0 ... 16; the others are 0. */
LB_INLINE lb_l16 lb_l16_get(const float *from, ptrdiff_t n) {
    float some[16] = {0};
    memcpy(some, from, sizeof *from * (size_t)(n < 16 ? n : 16));
    return lb_l16_load(some);
}

LB_INLINE void lb_l16_put(float *to, lb_l16 v, ptrdiff_t n) {
    float some[16];
    lb_l16_store(some, v);
    memcpy(to, some, sizeof *to * (size_t)(n < 16 ? n : 16));
}

LB_INLINE __m256 lb_number8(__m256 v) {
    return _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_set1_epi32((int32_t)0xff800000u)), v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
}
LB_L16_UNARY(number, lb_number8) /* NaN becomes -infinity */

LB_INLINE lb_l16 lb_l16_halves(const uint16_t *from) {
    return (lb_l16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + 8)))};
}

/* bfloat16: the upper halves of floats. */
LB_INLINE lb_l16 lb_l16_bf16(const uint16_t *from) {
    const __m256i all = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return (lb_l16){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(all)), 16)),
                    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(all, 1)), 16))};
}

LB_INLINE void lb_l16_put_halves(uint16_t *to, lb_l16 v) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(void *)(to + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Lanes 8 apart are added, 4, 2, 1. */
LB_INLINE float lb_l16_sum(lb_l16 v) {
    return lb_reduce_add8(_mm256_add_ps(v.a, v.b));
}

/* The largest of all; no NaN. */
LB_INLINE float lb_l16_most(lb_l16 v) {
    return lb_reduce_max8(_mm256_max_ps(v.a, v.b));
}

LB_INLINE int32_t lb_sum8(__m256i v) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

LB_INLINE __m256i lb_magnitude8(__m256 v) {
    return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7FFFFFFF));
}

/* A block of 32 as a record (blocks.h). */
LB_INLINE void lb_l16_quantize(lb_l16 x, lb_l16 y, uint8_t *record) {
    const __m256 v[4] = {x.a, x.b, y.a, y.b};
    const __m256i most = _mm256_max_epi32(_mm256_max_epi32(lb_magnitude8(v[0]), lb_magnitude8(v[1])),
                                          _mm256_max_epi32(lb_magnitude8(v[2]), lb_magnitude8(v[3])));
    lb_block_record r;
    float factor;
    r.scale = lb_block_scale((uint32_t)lb_reduce_max8_s32(most), &factor);
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = factor > 0.0f ? _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(factor))) : _mm256_setzero_si256();
    const int32_t half[2] = {lb_sum8(_mm256_add_epi32(q[0], q[1])), lb_sum8(_mm256_add_epi32(q[2], q[3]))};
    r.half[0] = (int16_t)half[0], r.half[1] = (int16_t)half[1];
    r.sum = half[0] + half[1];
    r.scaled_sum = r.scale * (float)r.sum;
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256((__m256i *)(void *)record, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    memcpy(record + 32, (const char *)&r + 32, 16);
}

#endif
