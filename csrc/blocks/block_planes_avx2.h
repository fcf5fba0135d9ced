/* Eight of the sixteen outputs of a panel (block_panel.h) in registers of 256 bits: codes as bytes, scales as floats. */
#ifndef LB_BLOCK_PLANES_AVX2_H
#define LB_BLOCK_PLANES_AVX2_H

#include "base/unroll.h"
#include "blocks/block_panel.h"

#include <immintrin.h>

LB_INLINE __m256i lb_load256(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

/* Bits at `from` of each byte, moved to `to`, under a mask of bytes. */
LB_INLINE __m256i lb_moved256(__m256i v, const int from, const int to, const int mask) {
    const __m256i moved = from < to ? _mm256_slli_epi16(v, to - from) : _mm256_srli_epi16(v, from - to);
    return _mm256_and_si256(from == to ? v : moved, _mm256_set1_epi8((char)mask));
}

/* The codes of a block of 32 of outputs 8 half ... 8 half + 7 as bytes: quad i in w[i]. */
LB_INLINE void lb_planes256(const int32_t format, const uint8_t *codes, const int half, __m256i w[8]) {
    const int bits = lb_block_format_of(format).bits;
    int shift = 0;
    codes += 32 * half;
    if (bits == 8) {
        LB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = lb_load256(codes + 64 * i);
        return;
    }
    if (bits >= 4) {
        LB_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m256i v = lb_load256(codes + 64 * i);
            w[i] = lb_moved256(v, 0, 0, 15), w[i + 4] = lb_moved256(v, 4, 0, 15);
        }
        codes += 256, shift = 4;
    }
    if (bits == 2 || bits == 3 || bits == 6) {
        const __m256i v[2] = {lb_load256(codes), lb_load256(codes + 64)};
        LB_UNROLL
        for (int i = 0; i < 8; i++) {
            const __m256i two = lb_moved256(v[i / 4], 2 * (i % 4), shift, 3 << shift);
            w[i] = shift ? _mm256_or_si256(w[i], two) : two;
        }
        codes += 128, shift += 2;
    }
    if (bits == 5 || bits == 3) {
        const __m256i v = lb_load256(codes);
        LB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = _mm256_or_si256(w[i], lb_moved256(v, i, shift, 1 << shift));
    }
    if (format == LB_IQ4_NL) {
        const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)lb_iq4_nl));
        LB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = _mm256_shuffle_epi8(table, w[i]);
    }
}

LB_INLINE __m256 lb_halves256(const uint8_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* Value v of 6-bit scales as floats; words of these eight outputs. */
LB_INLINE __m256 lb_scale_k256(const uint8_t *words, const int v) {
    const __m256i mask = _mm256_set1_epi32(63);
    if (v < 15)
        return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(lb_load256(words + 64 * (v / 5)), 6 * (v % 5)), mask));
    const __m256i a = _mm256_srli_epi32(lb_load256(words), 30), b = _mm256_srli_epi32(lb_load256(words + 64), 30);
    const __m256i c = _mm256_srli_epi32(lb_load256(words + 128), 30);
    return _mm256_cvtepi32_ps(_mm256_or_si256(a, _mm256_or_si256(_mm256_slli_epi32(b, 2), _mm256_slli_epi32(c, 4))));
}

/* What goes with a block of 32: d and m; factors of runs of 16 twice in each lane (int16), and both runs' as a pair (first, second). */
typedef struct {
    __m256 d, m;
    __m256i factor[2], factors, offset_factors;
} lb_scales256;

/* d and m of the eight runs of 32 of Q4_K and Q5_K: products with 6-bit scales. */
LB_INLINE void lb_scales_k256(const uint8_t *at, const int half, __m256 d[8], __m256 m[8]) {
    const __m256 whole_d = lb_halves256(at + 16 * half), whole_m = _mm256_xor_ps(lb_halves256(at + 32 + 16 * half), _mm256_set1_ps(-0.0f));
    LB_UNROLL_ALL
    for (int b = 0; b < 8; b++) {
        d[b] = _mm256_mul_ps(whole_d, lb_scale_k256(at + 64 + 32 * half, b));
        m[b] = _mm256_mul_ps(whole_m, lb_scale_k256(at + 64 + 32 * half, 8 + b));
    }
}

/* Two vectors of integers within 16 bits as pairs of them. */
LB_INLINE __m256i lb_pairs256(__m256i first, __m256i second) {
    return _mm256_or_si256(_mm256_and_si256(first, _mm256_set1_epi32(0xFFFF)), _mm256_slli_epi32(second, 16));
}

/* All formats but these: `b` is which 32 of 256, `at` the header of their block. */
LB_INLINE void lb_scales_at256(const int32_t format, const uint8_t *at, int b, const int half, lb_scales256 *s) {
    const lb_block_format f = lb_block_format_of(format);
    if (f.factors) {
        __m256i factor[2], offset[2];
        LB_UNROLL
        for (int i = 0; i < 2; i++) {
            const __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)(at + 16 * (2 * b + i) + 8 * half));
            const __m256i both = f.offset_factors ? _mm256_cvtepu8_epi32(v) : _mm256_cvtepi8_epi32(v);
            factor[i] = f.offset_factors ? _mm256_and_si256(both, _mm256_set1_epi32(15)) : both;
            offset[i] = _mm256_srli_epi32(both, 4);
            s->factor[i] = lb_pairs256(factor[i], factor[i]);
        }
        s->factors = lb_pairs256(factor[0], factor[1]);
        s->offset_factors = lb_pairs256(offset[0], offset[1]);
        at += 256;
    }
    s->d = lb_halves256(at + 16 * half);
    if (f.offset)
        s->m = lb_halves256(at + 32 + 16 * half);
    if (f.offset_factors)
        s->m = _mm256_xor_ps(s->m, _mm256_set1_ps(-0.0f));
}

#endif
