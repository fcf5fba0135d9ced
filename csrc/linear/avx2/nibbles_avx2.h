/* Products of bytes by vpmaddubsw, exact for all weights: activations (unsigned) in halves of four bits, a = 16 h + l. A lane of int16
 * gets h0 w0 + h1 w1, within 2 * 15 * 128, so eight of them fit before they are widened. Twice as many multiplications as
 * maddubs_weights_avx2.h, but the weights are read once, as the bytes they are: for few rows, where reading them is what takes the time.
 *
 * Panels of 16 columns: k padded to 32, quads of four k of eight columns and of the next eight. */
#ifndef LB_NIBBLES_AVX2_H
#define LB_NIBBLES_AVX2_H

#include "gemm/gemm_s8_tiles_avx2.h"
#include "linear/avx2/weights_avx2.h"

enum { LB_NIBBLE_ROWS = 2 };

LB_INLINE __m256i lb_nibble_first(__m256i x, __m256i w) {
    __m256i sum;
    __asm__("vpmaddubsw %[w], %[x], %[sum]" : [sum] "=x"(sum) : [x] "x"(x), [w] "x"(w));
    return sum;
}

LB_INLINE void lb_nibble(__m256i *sum, __m256i x, __m256i w) {
    __m256i t;
    __asm__("vpmaddubsw %[w], %[x], %[t]\n\t"
            "vpaddw %[t], %[sum], %[sum]"
            : [sum] "+x"(*sum), [t] "=&x"(t)
            : [x] "x"(x), [w] "x"(w));
}

LB_INLINE __m256i lb_broadcast(const uint8_t *a) {
    __m256i x;
    __asm__("vpbroadcastd %[a], %[x]" : [x] "=x"(x) : [a] "m"(*(const lb_dword *)(const void *)a));
    return x;
}

/* acc[row][half] += the products of a row with 16 columns; k is a multiple of LB_NIBBLE_STEP. */
LB_INLINE void lb_nibbles_tile(const int rows, const uint8_t *high, const uint8_t *low, ptrdiff_t stride, const int8_t *w, ptrdiff_t k,
                               __m256i acc[LB_NIBBLE_ROWS][2]) {
    const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
    for (ptrdiff_t at = 0; at < k; at += LB_NIBBLE_STEP) {
        __m256i h[LB_NIBBLE_ROWS][2], l[LB_NIBBLE_ROWS][2];
        LB_UNROLL
        for (int quad = 0; quad < LB_NIBBLE_STEP / 4; quad++, w += 64) {
            const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);
            const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32));
            LB_UNROLL
            for (int i = 0; i < rows; i++) {
                const __m256i x = lb_broadcast(high + i * stride + at + 4 * quad), y = lb_broadcast(low + i * stride + at + 4 * quad);
                if (quad == 0) {
                    h[i][0] = lb_nibble_first(x, w0), h[i][1] = lb_nibble_first(x, w1);
                    l[i][0] = lb_nibble_first(y, w0), l[i][1] = lb_nibble_first(y, w1);
                } else {
                    lb_nibble(&h[i][0], x, w0), lb_nibble(&h[i][1], x, w1);
                    lb_nibble(&l[i][0], y, w0), lb_nibble(&l[i][1], y, w1);
                }
            }
        }
        LB_UNROLL
        for (int i = 0; i < 2 * rows; i++) {
            const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(h[i / 2][i % 2], sixteens), _mm256_madd_epi16(l[i / 2][i % 2], ones));
            acc[i / 2][i % 2] = _mm256_add_epi32(acc[i / 2][i % 2], sum);
        }
    }
}

/* A row of activations, plus 128, in halves; zeros up to LB_NIBBLE_STEP. */
static inline void lb_halve_row(const int8_t *a, int32_t k, uint8_t *high, uint8_t *low) {
    const __m256i flip = _mm256_set1_epi8(-128), mask = _mm256_set1_epi8(15);
    for (int32_t i = 0; i < k; i += LB_NIBBLE_STEP) {
        __m256i bytes;
        if (k - i < LB_NIBBLE_STEP) {
            bytes = flip;
            memcpy(&bytes, a + i, (size_t)(k - i));
        } else
            bytes = _mm256_loadu_si256((const __m256i *)(const void *)(a + i));
        bytes = _mm256_xor_si256(bytes, flip);
        _mm256_store_si256((__m256i *)(void *)(high + i), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask));
        _mm256_store_si256((__m256i *)(void *)(low + i), _mm256_and_si256(bytes, mask));
    }
}

#endif
