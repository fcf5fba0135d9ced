/* The end of integer layers on AVX-512: what lb_requantize computes, 64 at a time, as requantize_avx2.h does it. */
#ifndef LB_REQUANTIZE_AVX512_H
#define LB_REQUANTIZE_AVX512_H

#include "base/avx512.h"
#include "base/unroll.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    __m512 most; /* above 2^31 conversion would give INT_MIN; below it gives that, as it should */
    __m512i zero_point, lo, hi;
} lb_clamp64;

LB_INLINE lb_clamp64 lb_clamp64_of(int32_t zero_point, int32_t lo, int32_t hi) {
    return (lb_clamp64){_mm512_set1_ps(1073741824.0f), _mm512_set1_epi16((int16_t)zero_point), _mm512_set1_epi8((char)lo),
                        _mm512_set1_epi8((char)hi)};
}

/* Four times 16 accumulators times multipliers, of which there are `wide` vectors in turn; rounded and clamped, one after the other. */
LB_INLINE __m512i lb_requantize64(const int wide, const __m512i acc[4], const __m512 *multiplier, const lb_clamp64 *c) {
    __m512i q[4];
    LB_UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(acc[i]), multiplier[i % wide]), c->most));
    const __m512i below = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), c->zero_point);
    const __m512i above = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), c->zero_point);
    const __m512i bytes = _mm512_max_epi8(_mm512_min_epi8(_mm512_packs_epi16(below, above), c->hi), c->lo);
    return lb_in_order(bytes);
}

/* 4 / wide pixels of 16 * wide channels, of which the first `many` pixels, and channels as the mask says, are stored. */
LB_INLINE void lb_store_pixels(const int wide, __m512i bytes, int8_t *out, ptrdiff_t stride, int32_t many, __mmask64 exist) {
    if (wide == 4) {
        _mm512_mask_storeu_epi8(out, exist, bytes);
    } else if (wide == 2) {
        _mm256_mask_storeu_epi8(out, (__mmask32)exist, _mm512_castsi512_si256(bytes));
        if (many > 1)
            _mm256_mask_storeu_epi8(out + stride, (__mmask32)exist, _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        _mm_mask_storeu_epi8(out, (__mmask16)exist, _mm512_castsi512_si128(bytes));
        if (many > 1)
            _mm_mask_storeu_epi8(out + stride, (__mmask16)exist, _mm512_extracti32x4_epi32(bytes, 1));
        if (many > 2)
            _mm_mask_storeu_epi8(out + 2 * stride, (__mmask16)exist, _mm512_extracti32x4_epi32(bytes, 2));
        if (many > 3)
            _mm_mask_storeu_epi8(out + 3 * stride, (__mmask16)exist, _mm512_extracti32x4_epi32(bytes, 3));
    }
}

#endif
