/* Eight reals as elements of an output whose width the params say: floats, or rounded and clamped to int8 or int16. Any float is taken:
 * NaN counts as 0, as in lb_round_clamp. */
#ifndef LB_STORE_AVX2_H
#define LB_STORE_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    __m256 least, most;
    __m256i zero;
    int32_t bytes;
} lb_target;

static inline lb_target lb_target_of(int32_t bytes, int32_t zero_point, int32_t lo, int32_t hi) {
    return (lb_target){_mm256_set1_ps((float)(lo - zero_point)), _mm256_set1_ps((float)(hi - zero_point)), _mm256_set1_epi32(zero_point),
                       bytes};
}

/* Eight int32 within lo ... hi. */
static inline __m256i lb_rounded8(__m256 v, const lb_target *t) {
    v = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    return _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, t->least), t->most)), t->zero);
}

/* The first `count` (1 ... 8) of v as elements at, at + 1, ... of out. */
static inline void lb_put8(void *out, ptrdiff_t at, __m256 v, ptrdiff_t count, const lb_target *t) {
    if (t->bytes == 4) {
        if (count >= 8)
            _mm256_storeu_ps((float *)out + at, v);
        else
            memcpy((float *)out + at, &v, 4 * (size_t)count);
        return;
    }
    const __m256i q = lb_rounded8(v, t);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    if (t->bytes == 2) {
        if (count >= 8)
            _mm_storeu_si128((__m128i *)(void *)((int16_t *)out + at), words);
        else
            memcpy((int16_t *)out + at, &words, 2 * (size_t)count);
        return;
    }
    const __m128i bytes = _mm_packs_epi16(words, words);
    if (count >= 8)
        _mm_storel_epi64((__m128i *)(void *)((int8_t *)out + at), bytes);
    else
        memcpy((int8_t *)out + at, &bytes, (size_t)count);
}

#endif
