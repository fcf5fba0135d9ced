/* Sixteen reals as elements of an output whose width the params say: floats, or rounded and clamped to int8 or int16. Any float is taken:
 * NaN counts as 0, as in lb_round_clamp. */
#ifndef LB_STORE_AVX512_H
#define LB_STORE_AVX512_H

#include "base/avx512.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    __m512 least, most, none; /* none: what NaN becomes */
    __m512i zero;
    int32_t bytes;
} lb_target16;

static inline lb_target16 lb_target16_of(int32_t bytes, int32_t zero_point, int32_t lo, int32_t hi) {
    const __m512 least = _mm512_set1_ps((float)(lo - zero_point)), most = _mm512_set1_ps((float)(hi - zero_point));
    return (lb_target16){least, most, _mm512_max_ps(_mm512_setzero_ps(), least), _mm512_set1_epi32(zero_point), bytes};
}

/* Sixteen int32 within lo ... hi. */
static inline __m512i lb_rounded16(__m512 v, const lb_target16 *t) {
    v = _mm512_mask_max_ps(t->none, _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v, t->least);
    return _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(v, t->most)), t->zero);
}

/* The first `count` (1 or more) of v as elements at, at + 1, ... of out. */
static inline void lb_put16(void *out, ptrdiff_t at, __m512 v, ptrdiff_t count, const lb_target16 *t) {
    const __mmask16 there = lb_first16(count);
    if (t->bytes == 4) {
        _mm512_mask_storeu_ps((float *)out + at, there, v);
        return;
    }
    const __m512i q = lb_rounded16(v, t);
    if (t->bytes == 2 && count >= 16)
        _mm256_storeu_si256((__m256i *)(void *)((int16_t *)out + at), _mm512_cvtsepi32_epi16(q));
    else if (t->bytes == 2)
        _mm512_mask_storeu_epi16((int16_t *)out + at, there, _mm512_castsi256_si512(_mm512_cvtsepi32_epi16(q)));
    else if (count >= 16)
        _mm_storeu_si128((__m128i *)(void *)((int8_t *)out + at), _mm512_cvtsepi32_epi8(q));
    else
        _mm512_mask_storeu_epi8((int8_t *)out + at, there, _mm512_castsi128_si512(_mm512_cvtsepi32_epi8(q)));
}

#endif
