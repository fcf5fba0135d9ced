/* Bits are counted by nibbles from a table (vpshufb). Bytes hold the counts of 31 words at most, then vpsadbw adds them up. */
#include <immintrin.h>

enum { LB_B1_TILE = 2 };

#include "binary/b1_panel.h"

static inline __m256i ones_of_bytes(__m256i v) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
    return _mm256_add_epi8(a, _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low)));
}

LB_INLINE lb_b1_sums lb_b1_count(const int tile, const lb_conv_b1_s8_params *p, const lb_b1_window *at, const uint64_t *panel) {
    enum { MOST = 31 };
    const int32_t words = lb_b1_words(p->in_c);
    const __m256i zero = _mm256_setzero_si256();
    __m256i sums[LB_B1_TILE][2], bytes[LB_B1_TILE][2];
    LB_UNROLL
    for (int t = 0; t < tile; t++)
        sums[t][0] = sums[t][1] = bytes[t][0] = bytes[t][1] = zero;
    int32_t full = 0;
    for (int32_t i = at->rows.first; i < at->rows.last; i++)
        for (int32_t j = at->columns.first; j < at->columns.last; j++) {
            const uint64_t *w = panel + ((ptrdiff_t)i * p->kernel_w + j) * words * LB_B1_PANEL;
            const uint8_t *x[LB_B1_TILE];
            LB_UNROLL
            for (int t = 0; t < tile; t++)
                x[t] = lb_b1_tap(p, at + t, i, j);
            for (int32_t k = 0; k < words; k++, w += LB_B1_PANEL) {
                const __m256i w0 = _mm256_loadu_si256((const __m256i *)(const void *)w);
                const __m256i w1 = _mm256_loadu_si256((const __m256i *)(const void *)(w + 4));
                LB_UNROLL
                for (int t = 0; t < tile; t++) {
                    long long bits;
                    memcpy(&bits, x[t] + (ptrdiff_t)k * 8, 8);
                    const __m256i v = _mm256_set1_epi64x(bits);
                    bytes[t][0] = _mm256_add_epi8(bytes[t][0], ones_of_bytes(_mm256_xor_si256(v, w0)));
                    bytes[t][1] = _mm256_add_epi8(bytes[t][1], ones_of_bytes(_mm256_xor_si256(v, w1)));
                }
                if (++full == MOST) {
                    LB_UNROLL
                    for (int t = 0; t < tile; t++) {
                        sums[t][0] = _mm256_add_epi64(sums[t][0], _mm256_sad_epu8(bytes[t][0], zero));
                        sums[t][1] = _mm256_add_epi64(sums[t][1], _mm256_sad_epu8(bytes[t][1], zero));
                        bytes[t][0] = bytes[t][1] = zero;
                    }
                    full = 0;
                }
            }
        }
    lb_b1_sums found;
    LB_UNROLL
    for (int t = 0; t < tile; t++) {
        const __m256i a = _mm256_add_epi64(sums[t][0], _mm256_sad_epu8(bytes[t][0], zero));
        const __m256i b = _mm256_add_epi64(sums[t][1], _mm256_sad_epu8(bytes[t][1], zero));
        const __m256 low = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88); /* a0 a1 b0 b1, a2 a3 b2 b3 */
        found.of[t] = _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xD8);
    }
    return found;
}

lb_sign_f32_s8_fn lb_sign_f32_s8__avx2;

void lb_sign_f32_s8__avx2(const lb_sign_f32_s8_params *p, const lb_f32 *x, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = x[i] < 0 ? -1 : 1;
}

lb_pack_s8_b1_fn lb_pack_s8_b1__avx2;

void lb_pack_s8_b1__avx2(const lb_pack_s8_b1_params *p, const int8_t *x, uint8_t *out, int32_t begin, int32_t end) {
    const ptrdiff_t bytes = (ptrdiff_t)lb_b1_words(p->k) * 8;
    for (int32_t i = begin; i < end; i++) {
        const int8_t *row = x + (ptrdiff_t)i * p->k;
        uint8_t *bits = out + i * bytes;
        memset(bits, 0, (size_t)bytes);
        int32_t j = 0;
        for (; j + 32 <= p->k; j += 32) {
            const uint32_t some = ~(uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(row + j)));
            memcpy(bits + j / 8, &some, 4);
        }
        for (; j < p->k; j++)
            if (row[j] > 0)
                bits[j / 8] = (uint8_t)(bits[j / 8] | 1 << j % 8);
    }
}

lb_conv_b1_s8_fn lb_conv_b1_s8__avx2;

void lb_conv_b1_s8__avx2(const lb_conv_b1_s8_params *p, const uint8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                         int8_t *out, int32_t begin, int32_t end) {
    lb_b1_conv(LB_TO_S8, p, x, w, bias, multiplier, out, begin, end);
}

lb_conv_b1_f32_fn lb_conv_b1_f32__avx2;

void lb_conv_b1_f32__avx2(const lb_conv_b1_f32_params *p, const uint8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                          lb_f32 *out, int32_t begin, int32_t end) {
    lb_b1_conv(LB_TO_F32, p, x, w, bias, multiplier, out, begin, end);
}
