/* Words of mixed_simd.h and avg_s16_simd.h on AVX2: eight integers of 8 or 16 bits at a time, as int32. */
#ifndef LB_INTS_AVX2_H
#define LB_INTS_AVX2_H

#include "base/store_avx2.h"
#include "base/unroll.h"

#define LB_INTS_LANES 8

typedef __m256i lb_ints;
typedef __m256 lb_ints_reals;
typedef lb_target lb_ints_target;

#define lb_ints_target_of(bytes, zero_point, lo, hi) lb_target_of(bytes, zero_point, lo, hi)
#define lb_ints_put(out, at, v, count, target) lb_put8(out, at, v, count, target)
#define lb_ints_all(v) _mm256_set1_epi32(v)
#define lb_ints_add(a, b) _mm256_add_epi32(a, b)
#define lb_ints_sub(a, b) _mm256_sub_epi32(a, b)
#define lb_ints_mul(a, b) _mm256_mullo_epi32(a, b)
#define lb_ints_real(v) _mm256_cvtepi32_ps(v)
#define lb_reals_all(v) _mm256_set1_ps(v)
#define lb_reals_add(a, b) _mm256_add_ps(a, b)
#define lb_reals_mul(a, b) _mm256_mul_ps(a, b)

/* The first `count` (1 or more) of the elements from `at` on. */
LB_INLINE lb_ints lb_ints_load(const void *from, int32_t bytes, ptrdiff_t at, ptrdiff_t count) {
    const char *first = (const char *)from + at * bytes;
    char some[16] = {0};
    if (count < 8)
        first = memcpy(some, first, (size_t)(count * bytes));
    if (bytes == 1)
        return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)first));
    return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)first));
}

/* fl32(a * b), of products that may have more than 32 bits. */
static inline lb_ints_reals lb_ints_wide_product(lb_ints a, lb_ints b) {
    const __m256d low = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(a)), _mm256_cvtepi32_pd(_mm256_castsi256_si128(b)));
    const __m256d high =
        _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(a, 1)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(b, 1)));
    return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

#endif
