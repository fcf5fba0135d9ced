/* Bits of eight channels are counted by one instruction (vpopcntq). */
#include "base/avx512.h"

enum { LB_B1_TILE = 4 };

#include "binary/b1_panel.h"

LB_INLINE lb_b1_sums lb_b1_count(const int tile, const lb_conv_b1_s8_params *p, const lb_b1_window *at, const uint64_t *panel) {
    const int32_t words = lb_b1_words(p->in_c);
    __m512i sums[LB_B1_TILE];
    LB_UNROLL
    for (int t = 0; t < tile; t++)
        sums[t] = _mm512_setzero_si512();
    for (int32_t i = at->rows.first; i < at->rows.last; i++)
        for (int32_t j = at->columns.first; j < at->columns.last; j++) {
            const uint64_t *w = panel + ((ptrdiff_t)i * p->kernel_w + j) * words * LB_B1_PANEL;
            const uint8_t *x[LB_B1_TILE];
            LB_UNROLL
            for (int t = 0; t < tile; t++)
                x[t] = lb_b1_tap(p, at + t, i, j);
            for (int32_t k = 0; k < words; k++, w += LB_B1_PANEL) {
                const __m512i v = _mm512_loadu_si512(w);
                LB_UNROLL
                for (int t = 0; t < tile; t++) {
                    long long bits;
                    memcpy(&bits, x[t] + (ptrdiff_t)k * 8, 8);
                    sums[t] = _mm512_add_epi64(sums[t], _mm512_popcnt_epi64(_mm512_xor_si512(v, _mm512_set1_epi64(bits))));
                }
            }
        }
    lb_b1_sums found;
    LB_UNROLL
    for (int t = 0; t < tile; t++)
        found.of[t] = _mm512_cvtepi64_epi32(sums[t]);
    return found;
}

lb_conv_b1_s8_fn lb_conv_b1_s8__avx512popcnt;

void lb_conv_b1_s8__avx512popcnt(const lb_conv_b1_s8_params *p, const uint8_t *x, const void *w, const int32_t *bias,
                                 const lb_f32 *multiplier, int8_t *out, int32_t begin, int32_t end) {
    lb_b1_conv(LB_TO_S8, p, x, w, bias, multiplier, out, begin, end);
}

lb_conv_b1_f32_fn lb_conv_b1_f32__avx512popcnt;

void lb_conv_b1_f32__avx512popcnt(const lb_conv_b1_f32_params *p, const uint8_t *x, const void *w, const int32_t *bias,
                                  const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end) {
    lb_b1_conv(LB_TO_F32, p, x, w, bias, multiplier, out, begin, end);
}
