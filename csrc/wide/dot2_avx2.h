/* Words of dot2_simd.h on AVX2 and AVX-VNNI: eight lanes; tiles of 6 rows and 16 columns take 12 accumulators, two vectors of weights and
 * one or two of a row. */
#ifndef LB_DOT2_AVX2_H
#define LB_DOT2_AVX2_H

#ifdef LB_DOT2_BY_VNNI
#include "base/vnni.h"
#endif

#include "base/madd_avx2.h"
#include "base/store_avx2.h"
#include "base/unroll.h"

typedef __m256i lb_vec;
typedef __m256 lb_reals;
typedef lb_target lb_dot2_target;

enum { LB_DOT2_ROWS = 6, LB_DOT2_FEW_ROWS = 0 };
#define LB_DOT2_LANES 8
#define LB_DOT2_WIDE 2

#define lb_vec_load(from) _mm256_load_si256((const __m256i *)(const void *)(from))
#define lb_vec_zero() _mm256_setzero_si256()
#define lb_vec_reals(v) _mm256_cvtepi32_ps(v)
#define lb_reals_load(from) _mm256_load_ps(from)
#define lb_reals_store(to, v) _mm256_store_ps(to, v)
#define lb_reals_mul(a, b) _mm256_mul_ps(a, b)
#define lb_dot2_target_of(bytes, zero_point, lo, hi) lb_target_of(bytes, zero_point, lo, hi)
#define lb_dot2_put(out, at, v, count, target) lb_put8(out, at, v, count, target)

/* c[j] += the pair of int16 at a, times the pairs of w[j], for two vectors. */
LB_INLINE void lb_dot2_row(const int wide, lb_vec *c, const int16_t *a, const lb_vec *w) {
    (void)wide;
#ifdef LB_DOT2_BY_VNNI
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    const lb_vec x = _mm256_set1_epi32(pair);
    c[0] = lb_dpwssd256(c[0], x, w[0]), c[1] = lb_dpwssd256(c[1], x, w[1]);
#else
    lb_madd_pair(c, a, w[0], w[1]);
#endif
}

/* Two whole vectors of accumulators as words, times multipliers. */
LB_INLINE void lb_dot2_put_words(const int wide, int16_t *out, const lb_vec *acc, const lb_reals *m, const lb_dot2_target *t) {
    lb_vec q[2];
    (void)wide;
    LB_UNROLL_ALL
    for (int j = 0; j < 2; j++) {
        const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(acc[j]), m[j]);
        q[j] = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, t->least), t->most)), t->zero);
    }
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xD8));
}

/* Lanes times a factor, added to doubles; and doubles as reals. */
static inline void lb_dot2_add(double *total, lb_vec v, double factor) {
    const __m256d f = _mm256_set1_pd(factor);
    const __m256d low = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(v)), f);
    const __m256d high = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1)), f);
    _mm256_store_pd(total, _mm256_add_pd(_mm256_load_pd(total), low));
    _mm256_store_pd(total + 4, _mm256_add_pd(_mm256_load_pd(total + 4), high));
}

static inline lb_reals lb_dot2_sums(const double *total) {
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_load_pd(total + 4)), _mm256_cvtpd_ps(_mm256_load_pd(total)));
}

/* Lanes plus doubles as reals. */
LB_INLINE lb_reals lb_dot2_plus(lb_vec v, const double *more) {
    const __m256d low = _mm256_add_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(v)), _mm256_load_pd(more));
    const __m256d high = _mm256_add_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1)), _mm256_load_pd(more + 4));
    return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

/* n words. */
LB_INLINE void lb_dot2_copy(int16_t *to, const int16_t *from, ptrdiff_t n) {
    for (; n >= 8; n -= 8, to += 8, from += 8)
        _mm_storeu_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* Depthwise: 16 channels of two taps, side by side within each 128 bits. */
enum { LB_DOT2_PIXELS = 3 };

#ifdef LB_SIMDE
#define lb_vec_keep(v) (void)(v)
#else
#define lb_vec_keep(v) __asm__("" : "+x"(v)) /* compilers would load it again at every use */
#endif
#define lb_vec_loadu(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define lb_vec_low(a, b) _mm256_unpacklo_epi16(a, b)
#define lb_vec_high(a, b) _mm256_unpackhi_epi16(a, b)
#ifdef LB_DOT2_BY_VNNI
#define lb_vec_dot(c, a, w) lb_dpwssd256(c, a, w)
#else
#define lb_vec_dot(c, a, w) _mm256_add_epi32(c, _mm256_madd_epi16(a, w))
#endif

static inline lb_vec lb_vec_some(const int16_t *from, ptrdiff_t count) {
    int16_t some[16] = {0};
    memcpy(some, from, 2 * (size_t)count);
    return lb_vec_loadu(some);
}

/* The first `count` of 16 channels whose lanes are as lb_vec_low and lb_vec_high leave them. */
LB_INLINE void lb_dot2_put_taps(void *out, ptrdiff_t at, lb_reals low, lb_reals high, ptrdiff_t count, const lb_dot2_target *t) {
    lb_put8(out, at, _mm256_permute2f128_ps(low, high, 0x20), count, t);
    if (count > 8)
        lb_put8(out, at + 8, _mm256_permute2f128_ps(low, high, 0x31), count - 8, t);
}

#endif
