/* Averages of bytes on AVX2, as bytes or as floats. */
#ifndef LB_AVG_POOL_AVX2_H
#define LB_AVG_POOL_AVX2_H

#include "lb.h"
#include "base/numerics.h"
#include "base/requantize_avx2.h"
#include "base/unroll.h"
#include "base/window.h"

enum { LB_BLOCK = 16, LB_TAPS = 255 }; /* the most bytes whose sum fits 16 bits */

/* Sums of 16 channels, `across` from tap to tap and `down` from row to row. */
static inline void lb_sums16(const int8_t *from, int32_t high, int32_t wide, ptrdiff_t down, ptrdiff_t across, __m256i sum[2]) {
    sum[0] = sum[1] = _mm256_setzero_si256();
    for (int32_t i = 0; i < high; i++, from += down) {
        const int8_t *at = from;
        for (int32_t j = 0; j < wide;) {
            __m256i words = _mm256_setzero_si256();
            for (const int32_t stop = wide - j < LB_TAPS ? wide : j + LB_TAPS; j < stop; j++, at += across)
                words = _mm256_add_epi16(words, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at)));
            sum[0] = _mm256_add_epi32(sum[0], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(words)));
            sum[1] = _mm256_add_epi32(sum[1], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(words, 1)));
        }
    }
}

static int32_t lb_length(lb_taps t) {
    return t.last - t.first;
}

/* `floats`: out is float, and nothing is rounded. */
LB_INLINE void lb_averages(const int floats, const lb_avg_pool_s8_params *p, const int8_t *x, void *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const ptrdiff_t down = (ptrdiff_t)p->dilation_h * p->in_w * p->channels, across = (ptrdiff_t)p->dilation_w * p->channels;
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const int32_t high = lb_length(lb_taps_inside(top, p->kernel_h, p->dilation_h, -p->count_h0, p->in_h + p->count_h1));
        int8_t *to = (int8_t *)out + (ptrdiff_t)item * p->out_w * p->out_stride * (floats ? 4 : 1);
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride * (floats ? 4 : 1)) {
            float *reals = (float *)(void *)to;
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const int32_t wide = lb_length(lb_taps_inside(left, p->kernel_w, p->dilation_w, -p->count_w0, p->in_w + p->count_w1));
            const float multiplier = high * wide > 0 ? p->multiplier / (float)(high * wide) : floats ? lb_f32_of_bits(0xFFC00000u) : 0.0f;
            const int32_t zero = lb_length(rows) * lb_length(columns) * p->x_zero;
            const ptrdiff_t corner = ((ptrdiff_t)(top + rows.first * p->dilation_h) * p->in_w + left + columns.first * p->dilation_w);
            const int8_t *from = lb_length(rows) && lb_length(columns) ? image + corner * p->channels : image;
            if (p->channels >= LB_BLOCK)
                for (int32_t c = 0; c < p->channels; c += LB_BLOCK) {
                    const int32_t at = p->channels - c < LB_BLOCK ? p->channels - LB_BLOCK : c; /* the last block is whole */
                    __m256i sum[2];
                    lb_sums16(from + at, lb_length(rows), lb_length(columns), down, across, sum);
                    for (int i = 0; i < 2; i++)
                        sum[i] = _mm256_sub_epi32(sum[i], _mm256_set1_epi32(zero));
                    const __m256 m = _mm256_set1_ps(multiplier);
                    if (floats) {
                        for (int i = 0; i < 2; i++)
                            _mm256_storeu_ps(reals + at + 8 * i, _mm256_mul_ps(_mm256_cvtepi32_ps(sum[i]), m));
                        continue;
                    }
                    _mm_storeu_si128((__m128i *)(void *)(to + at), lb_requantize16(sum[0], sum[1], m, m, &clamp));
                }
            else
                for (int32_t c = 0; c < p->channels; c++) {
                    int32_t sum = -zero;
                    for (int32_t i = 0; i < lb_length(rows); i++)
                        for (int32_t j = 0; j < lb_length(columns); j++)
                            sum += from[i * down + j * across + c];
                    if (floats)
                        reals[c] = (float)sum * multiplier;
                    else
                        to[c] = (int8_t)lb_requantize(sum, multiplier, p->y_zero, p->lo, p->hi);
                }
        }
    }
}

#endif
