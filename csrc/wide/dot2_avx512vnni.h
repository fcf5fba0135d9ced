/* Words of dot2_simd.h on AVX-512-VNNI: 16 lanes; tiles of 12 rows and 32 columns take 24 of the 32 registers for accumulators. */
#ifndef LB_DOT2_AVX512VNNI_H
#define LB_DOT2_AVX512VNNI_H

#include "base/store_avx512.h"
#include "base/unroll.h"
#include "base/vnni.h"

typedef __m512i lb_vec;
typedef __m512 lb_reals;
typedef lb_target16 lb_dot2_target;

enum { LB_DOT2_ROWS = 12, LB_DOT2_FEW_ROWS = 5 };
#define LB_DOT2_LANES 16
#define LB_DOT2_WIDE 4 /* vectors of a tile of few rows, where reading weights takes most of the time */

#define lb_vec_load(from) _mm512_load_si512(from)
#define lb_vec_zero() _mm512_setzero_si512()
#define lb_vec_reals(v) _mm512_cvtepi32_ps(v)
#define lb_reals_load(from) _mm512_load_ps(from)
#define lb_reals_store(to, v) _mm512_store_ps(to, v)
#define lb_reals_mul(a, b) _mm512_mul_ps(a, b)
#define lb_dot2_target_of(bytes, zero_point, lo, hi) lb_target16_of(bytes, zero_point, lo, hi)
#define lb_dot2_put(out, at, v, count, target) lb_put16(out, at, v, count, target)

/* c[j] += the pair of int16 at a, times the pairs of w[j], for `wide` vectors. */
LB_INLINE void lb_dot2_row(const int wide, lb_vec *c, const int16_t *a, const lb_vec *w) {
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    const lb_vec x = _mm512_set1_epi32(pair);
    LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        c[j] = lb_dpwssd512(c[j], x, w[j]);
}

/* Sums that are no NaN as int32 within lo ... hi. */
LB_INLINE lb_vec lb_dot2_rounded(lb_vec sum, lb_reals m, const lb_dot2_target *t) {
    const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), m);
    return _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, t->least), t->most)), t->zero);
}

/* `wide` whole vectors of accumulators as words, times multipliers. */
LB_INLINE void lb_dot2_put_words(const int wide, int16_t *out, const lb_vec *acc, const lb_reals *m, const lb_dot2_target *t) {
    lb_vec q[4];
    LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        q[j] = lb_dot2_rounded(acc[j], m[j], t);
    if (wide == 1)
        _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtsepi32_epi16(q[0]));
    LB_UNROLL_ALL
    for (int j = 0; j + 1 < wide; j += 2) {
        const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        _mm512_storeu_si512(out + 16 * j, _mm512_permutexvar_epi64(order, _mm512_packs_epi32(q[j], q[j + 1])));
    }
}

/* Lanes times a factor, added to doubles; and doubles as reals. */
static inline void lb_dot2_add(double *total, lb_vec v, double factor) {
    const __m512d f = _mm512_set1_pd(factor);
    const __m512d low = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(v)), f);
    const __m512d high = _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(v, 1)), f);
    _mm512_store_pd(total, _mm512_add_pd(_mm512_load_pd(total), low));
    _mm512_store_pd(total + 8, _mm512_add_pd(_mm512_load_pd(total + 8), high));
}

static inline lb_reals lb_dot2_sums(const double *total) {
    const __m256 low = _mm512_cvtpd_ps(_mm512_load_pd(total)), high = _mm512_cvtpd_ps(_mm512_load_pd(total + 8));
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}

/* Lanes plus doubles as reals. */
LB_INLINE lb_reals lb_dot2_plus(lb_vec v, const double *more) {
    const __m256 low = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(v)), _mm512_load_pd(more)));
    const __m256 high = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(v, 1)), _mm512_load_pd(more + 8)));
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}

/* n words; what follows them, up to 64 bytes from the last ones on, is overwritten: masks make stores slow. */
LB_INLINE void lb_dot2_copy(int16_t *to, const int16_t *from, ptrdiff_t n) {
    for (; n >= 32; n -= 32, to += 32, from += 32)
        _mm512_storeu_si512(to, _mm512_loadu_si512(from));
    if (n > 0)
        _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16((__mmask32)lb_first64(n), from));
}

/* Depthwise: 32 channels of two taps, side by side within each 128 bits. */
enum { LB_DOT2_PIXELS = 4 };

#define lb_vec_keep(v) lb_keep(v)
#define lb_vec_loadu(from) _mm512_loadu_si512(from)
#define lb_vec_some(from, count) _mm512_maskz_loadu_epi16((__mmask32)lb_first64(count), from)
#define lb_vec_low(a, b) _mm512_unpacklo_epi16(a, b)
#define lb_vec_high(a, b) _mm512_unpackhi_epi16(a, b)
#define lb_vec_dot(c, a, w) lb_dpwssd512(c, a, w)

/* 32 channels whose lanes are as lb_vec_low and lb_vec_high leave them, as words. */
LB_INLINE void lb_dot2_put_pairs(int16_t *out, const lb_vec sum[2], const lb_reals m[2], const lb_dot2_target *t) {
    _mm512_storeu_si512(out, _mm512_packs_epi32(lb_dot2_rounded(sum[0], m[0], t), lb_dot2_rounded(sum[1], m[1], t)));
}

/* The first `count` of 32 channels whose lanes are as lb_vec_low and lb_vec_high leave them. */
LB_INLINE void lb_dot2_put_taps(void *out, ptrdiff_t at, lb_reals low, lb_reals high, ptrdiff_t count, const lb_dot2_target *t) {
    if (t->bytes == 4) {
        const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
        lb_put16(out, at, _mm512_permutex2var_ps(low, first, high), count, t);
        if (count > 16)
            lb_put16(out, at + 16, _mm512_permutex2var_ps(low, second, high), count - 16, t);
        return;
    }
    const __m512i words = _mm512_packs_epi32(lb_rounded16(low, t), lb_rounded16(high, t));
    if (t->bytes == 2 && count >= 32)
        _mm512_storeu_si512((int16_t *)out + at, words);
    else if (t->bytes == 2)
        _mm512_mask_storeu_epi16((int16_t *)out + at, (__mmask32)lb_first64(count), words);
    else
        _mm512_mask_storeu_epi8((int8_t *)out + at, lb_first64(count < 32 ? count : 32),
                                _mm512_castsi256_si512(_mm512_cvtsepi16_epi8(words)));
}

#endif
