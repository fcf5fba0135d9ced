/* Convolutions of bits by panels of 8 channels. The including file has counted the bits of one panel:
 *
 *   lb_b1_count(tile, p, at, panel)    sums[t], t < tile <= LB_B1_TILE: of pixel t, 8 sums of the bits in which its window and the panel
 *                                      differ. Pixels of a tile have the same taps inside.
 *
 * Pixels are taken LB_B1_TILE at once where their windows are whole from left to right, which those between two whole ones are. */
#ifndef LB_B1_PANEL_H
#define LB_B1_PANEL_H

#include "base/requantize_avx2.h"
#include "base/unroll.h"
#include "binary/b1_window.h"

enum { LB_B1_PANEL = 8 };

typedef struct {
    __m256i of[LB_B1_TILE];
} lb_b1_sums;

LB_INLINE lb_b1_sums lb_b1_count(const int tile, const lb_conv_b1_s8_params *p, const lb_b1_window *at, const uint64_t *panel);

/* The end of one pixel's panel: 8 accumulators, of which the first `count` exist. */
LB_INLINE void lb_b1_finish(const lb_result to, __m256i acc, const float *multiplier, const lb_clamp16 *clamp, void *out, int32_t count) {
    const __m256 m = _mm256_loadu_ps(multiplier);
    if (to == LB_TO_F32) {
        float reals[8];
        _mm256_storeu_ps(count < 8 ? reals : (float *)out, _mm256_mul_ps(_mm256_cvtepi32_ps(acc), m));
        if (count < 8)
            memcpy(out, reals, 4 * (size_t)count);
        return;
    }
    const __m128i bytes = lb_requantize16(acc, _mm256_setzero_si256(), m, _mm256_setzero_ps(), clamp);
    if (count == 8)
        _mm_storel_epi64((__m128i *)out, bytes);
    else
        lb_store_bytes((int8_t *)out, bytes, count);
}

/* Pixels first ... first + tile - 1, all channels. */
LB_INLINE void lb_b1_tile(const lb_result to, const int tile, const lb_conv_b1_s8_params *p, const lb_b1_window *at, const uint64_t *w,
                          const int32_t *bias, const float *multiplier, const lb_clamp16 *clamp, char *out) {
    const ptrdiff_t words = (ptrdiff_t)p->kernel_h * p->kernel_w * lb_b1_words(p->in_c) * LB_B1_PANEL;
    const __m256i products = _mm256_set1_epi32(lb_b1_products(p, at));
    const size_t size = to == LB_TO_F32 ? 4 : 1;
    for (int32_t c = 0; c < p->out_c; c += LB_B1_PANEL, w += words) {
        const int32_t count = p->out_c - c < LB_B1_PANEL ? p->out_c - c : LB_B1_PANEL;
        int32_t some_bias[LB_B1_PANEL] = {0};
        float some_multipliers[LB_B1_PANEL] = {0};
        memcpy(some_bias, bias + c, 4 * (size_t)count);
        memcpy(some_multipliers, multiplier + c, 4 * (size_t)count);
        const __m256i start = _mm256_add_epi32(products, _mm256_loadu_si256((const __m256i *)(const void *)some_bias));
        const lb_b1_sums sums = lb_b1_count(tile, p, at, w);
        LB_UNROLL
        for (int t = 0; t < tile; t++)
            lb_b1_finish(to, _mm256_sub_epi32(start, _mm256_slli_epi32(sums.of[t], 1)), some_multipliers, clamp,
                         out + ((size_t)t * (size_t)p->out_stride + (size_t)c) * size, count);
    }
}

LB_INLINE void lb_b1_conv(const lb_result to, const lb_conv_b1_s8_params *p, const uint8_t *x, const uint64_t *w, const int32_t *bias,
                          const float *multiplier, void *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const size_t size = to == LB_TO_F32 ? 4 : 1;
    const int32_t last = lb_b1_pixel(p, end);
    for (int32_t i = lb_b1_pixel(p, begin); i < last;) {
        lb_b1_window at[LB_B1_TILE];
        at[0] = lb_b1_window_of(p, x, i);
        int tile = lb_taps_count(at[0].columns) == p->kernel_w && last - i >= LB_B1_TILE && p->out_w - i % p->out_w >= LB_B1_TILE;
        for (int t = 1; t < LB_B1_TILE && tile; t++) {
            at[t] = lb_b1_window_of(p, x, i + t);
            tile = lb_taps_count(at[t].columns) == p->kernel_w;
        }
        char *to_here = (char *)out + (size_t)i * (size_t)p->out_stride * size;
        if (tile)
            lb_b1_tile(to, LB_B1_TILE, p, at, w, bias, multiplier, &clamp, to_here);
        else
            lb_b1_tile(to, 1, p, at, w, bias, multiplier, &clamp, to_here);
        i += tile ? LB_B1_TILE : 1;
    }
}

#endif
