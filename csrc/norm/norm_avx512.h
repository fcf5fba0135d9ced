/* Norms on AVX-512: sums of some sets, then their means and factors, then their results, so that sets need not wait for each other's
 * divisions and roots. */
#ifndef LB_NORM_AVX512_H
#define LB_NORM_AVX512_H

#include "norm/norm_shared.h"
#include "base/store_avx512.h"

enum { LB_SETS = 8 };

/* s1 and s2 of the n elements of x from `at` on, zero points not taken off. */
typedef void lb_sums_fn(const void *x, ptrdiff_t at, int32_t n, int64_t *s1, int64_t *s2);

/* The sum of sixteen int32. */
static inline int64_t lb_total16(__m512i v) {
    int32_t parts[16];
    int64_t total = 0;
    _mm512_storeu_si512(parts, v);
    for (int i = 0; i < 16; i++)
        total += parts[i];
    return total;
}

/* lb_moments_of with the CPU's root, which rounds as lb_sqrt does. */
static inline lb_moments lb_moments_avx512(const lb_norm_s8_params *p, int64_t s1, int64_t s2) {
    const int64_t z = p->x_zero, n = p->n;
    const lb_moments m = lb_variance_of(p, s1 - n * z, s2 - 2 * z * s1 + n * z * z);
    return (lb_moments){m.mean, 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(m.r)))};
}

/* Sixteen elements (of `bytes`) as int32, of which `count` are there. */
static inline __m512i lb_widened16(const void *x, const int32_t bytes, ptrdiff_t at, ptrdiff_t count) {
    if (bytes == 1)
        return _mm512_cvtepi8_epi32(count >= 16
                                        ? _mm_loadu_si128((const __m128i *)(const void *)((const int8_t *)x + at))
                                        : _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(lb_first16(count), (const int8_t *)x + at)));
    return _mm512_cvtepi16_epi32(count >= 16
                                     ? _mm256_loadu_si256((const __m256i *)(const void *)((const int16_t *)x + at))
                                     : _mm512_castsi512_si256(_mm512_maskz_loadu_epi16(lb_first16(count), (const int16_t *)x + at)));
}

/* Sixteen elements of a set with the moments m. */
static inline __attribute__((always_inline)) __m512 lb_normed16(__m512i x, __m512i zero, const lb_moments *m) {
    return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(x, zero)), _mm512_set1_ps(m->mean)), _mm512_set1_ps(m->r));
}

/* `count` elements from `at` on, whose channels are one, or begin with that at gain and offset. */
static inline __attribute__((always_inline)) void lb_norm_run(const lb_norm_s8_params *p, const void *x, const int32_t bytes, ptrdiff_t at,
                                                              ptrdiff_t count, const lb_moments *m, const float *gain, const float *offset,
                                                              const int same, void *out, const lb_target16 *target) {
    const __m512i zero = _mm512_set1_epi32(p->x_zero);
    for (ptrdiff_t i = 0; i < count; i += 16) {
        const ptrdiff_t left = count - i;
        const __mmask16 there = lb_first16(left);
        const __m512 y = lb_normed16(lb_widened16(x, bytes, at + i, left), zero, m);
        const __m512 g = same ? _mm512_set1_ps(*gain) : _mm512_maskz_loadu_ps(there, gain + i);
        __m512 v = _mm512_mul_ps(y, g);
        if (p->shifted)
            v = _mm512_add_ps(v, same ? _mm512_set1_ps(*offset) : _mm512_maskz_loadu_ps(there, offset + i));
        lb_put16(out, at + i, v, left, target);
    }
}

/* Sets begin ... end - 1 of x, whose elements have `bytes`, a constant where this is called, as `sums` is. */
static inline __attribute__((always_inline)) void lb_norm_sets(const lb_norm_s8_params *p, const void *x, const int32_t bytes,
                                                               lb_sums_fn *sums, const float *gain, const float *offset, void *out,
                                                               int32_t begin, int32_t end) {
    const lb_target16 target = lb_target16_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t first = begin; first < end; first += LB_SETS) {
        const int32_t count = end - first < LB_SETS ? end - first : LB_SETS;
        lb_moments m[LB_SETS];
        for (int32_t i = 0; i < count; i++) {
            int64_t s1, s2;
            sums(x, (ptrdiff_t)(first + i) * p->n, p->n, &s1, &s2);
            m[i] = lb_moments_avx512(p, s1, s2);
        }
        for (int32_t i = 0; i < count; i++) {
            const ptrdiff_t at = (ptrdiff_t)(first + i) * p->n;
            const float *g = gain + lb_norm_channel(p, first + i), *o = offset + lb_norm_channel(p, first + i);
            if (p->run == 1)
                lb_norm_run(p, x, bytes, at, p->n, &m[i], g, o, 0, out, &target);
            else
                for (ptrdiff_t j = 0; j < p->n; j += p->run)
                    lb_norm_run(p, x, bytes, at + j, p->run, &m[i], g + j / p->run, o + j / p->run, 1, out, &target);
        }
    }
}

#endif
