/* The second half of a norm on AVX2: from sums to results. */
#ifndef LB_NORM_AVX2_H
#define LB_NORM_AVX2_H

#include "norm/norm_shared.h"
#include "base/store_avx2.h"

static inline int64_t lb_total8(__m256i v) {
    int32_t parts[8];
    int64_t total = 0;
    _mm256_storeu_si256((__m256i *)(void *)parts, v);
    for (int i = 0; i < 8; i++)
        total += parts[i];
    return total;
}

/* Eight elements as int32, of which `count` are there. */
static inline __m256i lb_widened8(const void *x, int32_t bytes, ptrdiff_t at, ptrdiff_t count) {
    if (count >= 8)
        return bytes == 1 ? _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)((const int8_t *)x + at)))
                          : _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)((const int16_t *)x + at)));
    int32_t some[8] = {0};
    for (ptrdiff_t i = 0; i < count; i++)
        some[i] = lb_element(x, bytes, at + i);
    return _mm256_loadu_si256((const __m256i *)(const void *)some);
}

/* Eight numbers of a vector, of which `count` are there, or one of them eight times. */
static inline __m256 lb_entries8(const float *v, ptrdiff_t count, int same) {
    if (same)
        return _mm256_set1_ps(*v);
    if (count >= 8)
        return _mm256_loadu_ps(v);
    float some[8] = {0};
    memcpy(some, v, 4 * (size_t)count);
    return _mm256_loadu_ps(some);
}

/* A set of x, whose elements (of `bytes`, a constant where this is called) have the sums s1 and their squares s2, zero points not taken
 * off. */
static inline __attribute__((always_inline)) void lb_norm_set(const lb_norm_s8_params *p, const void *x, const int32_t bytes, int32_t set,
                                                              int64_t s1, int64_t s2, const float *gain, const float *offset, void *out) {
    const int64_t z = p->x_zero, n = p->n;
    const lb_moments m = lb_moments_of(p, s1 - n * z, s2 - 2 * z * s1 + n * z * z);
    const __m256 mean = _mm256_set1_ps(m.mean), r = _mm256_set1_ps(m.r);
    const __m256i zero = _mm256_set1_epi32(p->x_zero);
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    const int same = p->run > 1;
    const ptrdiff_t first = (ptrdiff_t)set * p->n, run = same ? p->run : p->n;
    const float *g = gain + lb_norm_channel(p, set), *o = offset + lb_norm_channel(p, set);
    for (ptrdiff_t at = 0; at < p->n; at += run) {
        for (ptrdiff_t i = 0; i < run; i += 8) {
            const ptrdiff_t left = run - i, c = same ? at / run : i;
            const __m256 d = _mm256_cvtepi32_ps(_mm256_sub_epi32(lb_widened8(x, bytes, at + i, left), zero));
            __m256 y = _mm256_mul_ps(_mm256_mul_ps(_mm256_sub_ps(d, mean), r), lb_entries8(g + c, left, same));
            if (p->shifted)
                y = _mm256_add_ps(y, lb_entries8(o + c, left, same));
            lb_put8(out, first + at + i, y, left, &target);
        }
    }
}

#endif
