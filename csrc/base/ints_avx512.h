/* Words of mixed_simd.h and avg_s16_simd.h on AVX-512: 16 integers of 8 or 16 bits at a time, as int32. */
#ifndef LB_INTS_AVX512_H
#define LB_INTS_AVX512_H

#include "base/store_avx512.h"
#include "base/unroll.h"

#define LB_INTS_LANES 16

typedef __m512i lb_ints;
typedef __m512 lb_ints_reals;
typedef lb_target16 lb_ints_target;

#define lb_ints_target_of(bytes, zero_point, lo, hi) lb_target16_of(bytes, zero_point, lo, hi)
#define lb_ints_put(out, at, v, count, target) lb_put16(out, at, v, count, target)
#define lb_ints_all(v) _mm512_set1_epi32(v)
#define lb_ints_add(a, b) _mm512_add_epi32(a, b)
#define lb_ints_sub(a, b) _mm512_sub_epi32(a, b)
#define lb_ints_mul(a, b) _mm512_mullo_epi32(a, b)
#define lb_ints_real(v) _mm512_cvtepi32_ps(v)
#define lb_reals_all(v) _mm512_set1_ps(v)
#define lb_reals_add(a, b) _mm512_add_ps(a, b)
#define lb_reals_mul(a, b) _mm512_mul_ps(a, b)

/* The first `count` (1 or more) of the elements from `at` on. */
LB_INLINE lb_ints lb_ints_load(const void *from, int32_t bytes, ptrdiff_t at, ptrdiff_t count) {
    if (bytes == 1)
        return _mm512_cvtepi8_epi32(_mm512_castsi512_si128(_mm512_maskz_loadu_epi8(lb_first16(count), (const int8_t *)from + at)));
    const int16_t *words = (const int16_t *)from + at;
    return _mm512_cvtepi16_epi32(count >= 16 ? _mm256_loadu_si256((const __m256i *)(const void *)words)
                                             : _mm512_castsi512_si256(_mm512_maskz_loadu_epi16(lb_first16(count), words)));
}

/* fl32(a * b), of products that may have more than 32 bits. */
static inline lb_ints_reals lb_ints_wide_product(lb_ints a, lb_ints b) {
    const __m512d low = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(a)), _mm512_cvtepi32_pd(_mm512_castsi512_si256(b)));
    const __m512d high =
        _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(a, 1)), _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(b, 1)));
    const __m512d both = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)));
    return _mm512_castpd_ps(_mm512_insertf64x4(both, _mm256_castps_pd(_mm512_cvtpd_ps(high)), 1));
}

#endif
