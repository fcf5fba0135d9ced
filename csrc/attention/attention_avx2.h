/* Code that both widths of attention share on AVX2: from scores to probabilities. */
#ifndef LB_ATTENTION_AVX2_H
#define LB_ATTENTION_AVX2_H

#include "attention/attention_shared.h"
#include "base/exp_avx2.h"
#include "gemm/madd16_avx2.h"
#include "base/reduce_avx2.h"
#include "base/store_avx2.h"

/* Eight elements of a mask from `at` on, of which `count` are there, applied to u. */
static inline __m256 lb_masked8(const lb_attention_s8_params *p, const void *mask, ptrdiff_t at, ptrdiff_t count, __m256 u) {
    const ptrdiff_t step = p->mask_stride[3];
    if (p->mask_bytes == 4) {
        const float *m = (const float *)mask + at;
        if (count >= 8 && step)
            return _mm256_add_ps(u, _mm256_loadu_ps(m));
        float some[8] = {0};
        for (ptrdiff_t i = 0; i < 8 && i < count; i++)
            some[i] = m[i * step];
        return _mm256_add_ps(u, _mm256_loadu_ps(some));
    }
    const uint8_t *m = (const uint8_t *)mask + at;
    uint64_t bytes = 0;
    for (ptrdiff_t i = 0; i < 8 && i < count; i++)
        bytes |= (uint64_t)(m[i * step] != 0) << 8 * i;
    const __m256i there = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
    const __m256 out = _mm256_castsi256_ps(_mm256_cmpeq_epi32(there, _mm256_setzero_si256()));
    return _mm256_blendv_ps(u, _mm256_set1_ps(LB_MINUS_INFINITY), out);
}

/* Scores u (float, to a multiple of 8 after `keys`) with mask, those after `keys` -inf; gives their largest. */
static inline float lb_mask_row(const lb_attention_s8_params *p, const void *mask, ptrdiff_t at, int32_t keys, float *u) {
    const __m256 none = _mm256_set1_ps(LB_MINUS_INFINITY);
    __m256 top = none;
    for (int32_t j = 0; j < keys; j += 8) {
        __m256 v = _mm256_load_ps(u + j);
        if (p->mask_bytes)
            v = lb_masked8(p, mask, at + (ptrdiff_t)j * p->mask_stride[3], keys - j, v);
        if (keys - j < 8) {
            const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            v = _mm256_blendv_ps(none, v, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(keys - j), index)));
        }
        _mm256_store_ps(u + j, v);
        top = _mm256_max_ps(v, top); /* the second one, where the first is NaN */
    }
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}

static inline __m256i lb_probability8(__m256 u, __m256 top) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_set1_ps(LB_ONE), lb_exp8(_mm256_sub_ps(u, top))));
}

/* 16 dwords of at most 15 bits as words. */
static inline void lb_store_low_words(int16_t *out, __m256i a, __m256i b) {
    _mm256_store_si256((__m256i *)(void *)out, _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8));
}

enum { LB_LIMB = 10 }; /* bits of the lower half of a probability */

/* The probabilities of a row of `keys` scores, in two rows of words: p >> 10, and p & 1023 `stride` after it. Zeros follow to `end`, a
 * multiple of 16. Gives the sum of p, for up to 2^14 keys. */
static inline int64_t lb_probabilities(const float *u, int32_t keys, float top, int16_t *out, ptrdiff_t stride, ptrdiff_t end) {
    const __m256 best = _mm256_set1_ps(top);
    const __m256i low = _mm256_set1_epi32((1 << LB_LIMB) - 1);
    __m256i total = _mm256_setzero_si256();
    ptrdiff_t j = 0;
    for (; j < keys; j += 16) {
        const __m256i a = lb_probability8(_mm256_load_ps(u + j), best);
        const __m256i b = keys - j > 8 ? lb_probability8(_mm256_load_ps(u + j + 8), best) : _mm256_setzero_si256();
        total = _mm256_add_epi32(total, _mm256_add_epi32(a, b));
        lb_store_low_words(out + j, _mm256_srli_epi32(a, LB_LIMB), _mm256_srli_epi32(b, LB_LIMB));
        lb_store_low_words(out + stride + j, _mm256_and_si256(a, low), _mm256_and_si256(b, low));
    }
    if (j < end) {
        memset(out + j, 0, 2 * (size_t)(end - j));
        memset(out + stride + j, 0, 2 * (size_t)(end - j));
    }
    return lb_sum_s64(total);
}

/* fl32(high * factor + low) of eight integers, exact before it is rounded: doubles hold 53 bits. */
static inline __m256 lb_joined8(__m256i high, double factor, __m256i low) {
    const __m256d f = _mm256_set1_pd(factor);
    const __m256d a =
        _mm256_add_pd(_mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(high)), f), _mm256_cvtepi32_pd(_mm256_castsi256_si128(low)));
    const __m256d b = _mm256_add_pd(_mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(high, 1)), f),
                                    _mm256_cvtepi32_pd(_mm256_extracti128_si256(low, 1)));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a)), _mm256_cvtpd_ps(b), 1);
}

#endif
