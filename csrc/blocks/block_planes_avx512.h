/* Panels of sixteen outputs (block_panel.h) in registers of 512 bits: codes as bytes, scales as floats. */
#ifndef LB_BLOCK_PLANES_AVX512_H
#define LB_BLOCK_PLANES_AVX512_H

#include "base/vnni.h"
#include "base/unroll.h"
#include "blocks/block_panel.h"

/* Bits at `from` of each byte, moved to `to`, under a mask of bytes. */
LB_INLINE __m512i lb_moved512(__m512i v, const int from, const int to, const int mask) {
    const __m512i moved = from < to ? _mm512_slli_epi16(v, to - from) : _mm512_srli_epi16(v, from - to);
    return _mm512_and_si512(from == to ? v : moved, _mm512_set1_epi8((char)mask));
}

/* The codes of a block of 32 as bytes: quad i in w[i]. */
LB_INLINE void lb_planes512(const int32_t format, const uint8_t *codes, __m512i w[8]) {
    const int bits = lb_block_format_of(format).bits;
    int shift = 0;
    if (bits == 8) {
        LB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = _mm512_loadu_si512(codes + 64 * i);
        return;
    }
    if (bits >= 4) {
        LB_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m512i v = _mm512_loadu_si512(codes + 64 * i);
            w[i] = lb_moved512(v, 0, 0, 15), w[i + 4] = lb_moved512(v, 4, 0, 15);
        }
        codes += 256, shift = 4;
    }
    if (bits == 2 || bits == 3 || bits == 6) {
        const __m512i v[2] = {_mm512_loadu_si512(codes), _mm512_loadu_si512(codes + 64)};
        LB_UNROLL
        for (int i = 0; i < 8; i++) {
            const __m512i two = lb_moved512(v[i / 4], 2 * (i % 4), shift, 3 << shift);
            w[i] = shift ? _mm512_or_si512(w[i], two) : two;
        }
        codes += 128, shift += 2;
    }
    if (bits == 5 || bits == 3) {
        const __m512i v = _mm512_loadu_si512(codes);
        LB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = _mm512_or_si512(w[i], lb_moved512(v, i, shift, 1 << shift));
    }
    if (format == LB_IQ4_NL) {
        const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)lb_iq4_nl));
        LB_UNROLL
        for (int i = 0; i < 8; i++)
            w[i] = _mm512_shuffle_epi8(table, w[i]);
    }
}

LB_INLINE __m512 lb_halves512(const uint8_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* Value v of 6-bit scales as floats. */
LB_INLINE __m512 lb_scale_k512(const uint8_t *words, const int v) {
    const __m512i mask = _mm512_set1_epi32(63);
    if (v < 15)
        return _mm512_cvtepi32_ps(
            _mm512_and_si512(_mm512_srli_epi32(_mm512_loadu_si512(words + 64 * (v / 5)), (unsigned)(6 * (v % 5))), mask));
    const __m512i a = _mm512_srli_epi32(_mm512_loadu_si512(words), 30), b = _mm512_srli_epi32(_mm512_loadu_si512(words + 64), 30);
    const __m512i c = _mm512_srli_epi32(_mm512_loadu_si512(words + 128), 30);
    return _mm512_cvtepi32_ps(_mm512_or_si512(a, _mm512_or_si512(_mm512_slli_epi32(b, 2), _mm512_slli_epi32(c, 4))));
}

/* What goes with a block of 32: d and m, and factors of runs of 16 where there are some. */
typedef struct {
    __m512 d, m;
    __m512i factor[2], offset_factor[2];
} lb_scales512;

/* d and m of the eight runs of 32 of Q4_K and Q5_K: products with 6-bit scales. */
LB_INLINE void lb_scales_k512(const uint8_t *at, __m512 d[8], __m512 m[8]) {
    const __m512 whole_d = lb_halves512(at), whole_m = _mm512_xor_ps(lb_halves512(at + 32), _mm512_set1_ps(-0.0f));
    LB_UNROLL_ALL
    for (int b = 0; b < 8; b++) {
        d[b] = _mm512_mul_ps(whole_d, lb_scale_k512(at + 64, b));
        m[b] = _mm512_mul_ps(whole_m, lb_scale_k512(at + 64, 8 + b));
    }
}

/* All formats but these: `b` is which 32 of 256, `at` the header of their block. */
LB_INLINE void lb_scales_at512(const int32_t format, const uint8_t *at, int b, lb_scales512 *s) {
    const lb_block_format f = lb_block_format_of(format);
    if (f.factors) {
        LB_UNROLL
        for (int i = 0; i < 2; i++) {
            const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * (2 * b + i)));
            if (f.offset_factors) {
                const __m512i both = _mm512_cvtepu8_epi32(v);
                s->factor[i] = _mm512_and_si512(both, _mm512_set1_epi32(15)), s->offset_factor[i] = _mm512_srli_epi32(both, 4);
            } else
                s->factor[i] = _mm512_cvtepi8_epi32(v);
        }
        at += 256;
    }
    s->d = lb_halves512(at);
    if (f.offset)
        s->m = lb_halves512(at + 32);
    if (f.offset_factors)
        s->m = _mm512_xor_ps(s->m, _mm512_set1_ps(-0.0f));
}

#endif
