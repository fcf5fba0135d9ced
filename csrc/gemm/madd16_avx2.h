/* Products of int16 matrices on AVX2 by vpmaddwd: the loops of attention, products between activations and 16-bit linear layers.
 *
 * a has its rows as they are, two neighbours along k a dword. b stands in panels of 16 columns: for two k, (b[k][j], b[k + 1][j]) of
 * each of the 16, so that a step takes one dword of a and two vectors of b. In b, k is padded with zeros to an even number. */
#ifndef LB_MADD16_AVX2_H
#define LB_MADD16_AVX2_H

#include "base/madd_avx2.h"

#include <stddef.h>
#include <string.h>

enum { LB_WORDS_ROWS = 6 };

static inline ptrdiff_t lb_up(ptrdiff_t v, ptrdiff_t to) {
    return (v + to - 1) / to * to;
}

/* c (rows x 16) = `pairs` steps of rows of a and one panel; where `more`, added to what c holds. Modulo 2^32. */
LB_INLINE void lb_words_tile(const int rows, const int16_t *a, ptrdiff_t a_stride, const int16_t *b, ptrdiff_t pairs, int32_t *c,
                             ptrdiff_t c_stride, int more) {
    __m256i acc[LB_WORDS_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++)
            acc[r][h] = more ? _mm256_loadu_si256((const __m256i *)(const void *)(c + r * c_stride + 8 * h)) : _mm256_setzero_si256();
    for (ptrdiff_t i = 0; i < pairs; i++, a += 2, b += 32) {
        const __m256i b0 = _mm256_load_si256((const __m256i *)(const void *)b);
        const __m256i b1 = _mm256_load_si256((const __m256i *)(const void *)(b + 16));
        for (int r = 0; r < rows; r++)
            lb_madd_pair(acc[r], a + r * a_stride, b0, b1);
    }
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++)
            _mm256_storeu_si256((__m256i *)(void *)(c + r * c_stride + 8 * h), acc[r][h]);
}

/* The same for any number of rows. */
static inline void lb_words(ptrdiff_t rows, const int16_t *a, ptrdiff_t a_stride, const int16_t *b, ptrdiff_t pairs, int32_t *c,
                            ptrdiff_t c_stride, int more) {
    for (ptrdiff_t step; rows; rows -= step, a += step * a_stride, c += step * c_stride) {
        step = rows >= 6 ? 6 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
        if (step == 6)
            lb_words_tile(6, a, a_stride, b, pairs, c, c_stride, more);
        else if (step == 4)
            lb_words_tile(4, a, a_stride, b, pairs, c, c_stride, more);
        else if (step == 2)
            lb_words_tile(2, a, a_stride, b, pairs, c, c_stride, more);
        else
            lb_words_tile(1, a, a_stride, b, pairs, c, c_stride, more);
    }
}

/* 16 bytes from `from` on, of which `count` are there; the others are `fill`. */
static inline __m128i lb_some_bytes(const int8_t *from, ptrdiff_t count, int8_t fill) {
    if (count >= 16)
        return _mm_loadu_si128((const __m128i *)(const void *)from);
    int8_t bytes[16];
    memset(bytes, fill, sizeof bytes);
    if (count > 0)
        memcpy(bytes, from, (size_t)count);
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* Rows of bytes less their zero point as int16, padded with zeros to `padded` (a multiple of 16). */
static inline void lb_widen_row(const int8_t *from, ptrdiff_t n, ptrdiff_t padded, int32_t zero, int16_t *to) {
    const __m256i z = _mm256_set1_epi16((int16_t)zero);
    for (ptrdiff_t i = 0; i < padded; i += 16) {
        const __m256i v = _mm256_sub_epi16(_mm256_cvtepi8_epi16(lb_some_bytes(from + i, n - i, (int8_t)zero)), z);
        _mm256_storeu_si256((__m256i *)(void *)(to + i), v);
    }
}

/* Eight vectors of eight dwords, turned. */
static inline void lb_transpose8(__m256i v[8]) {
    __m256i t[8], u[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            u[4 * i + 2 * j] = _mm256_unpacklo_epi64(t[4 * i + j], t[4 * i + 2 + j]);
            u[4 * i + 2 * j + 1] = _mm256_unpackhi_epi64(t[4 * i + j], t[4 * i + 2 + j]);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(u[i], u[4 + i], 0x20);
        v[4 + i] = _mm256_permute2x128_si256(u[i], u[4 + i], 0x31);
    }
}

/* Panels of b whose columns are rows in memory (keys): `n` rows of `k` bytes, `stride` apart. k is padded to 16. */
static inline void lb_pack_columns_s8(const int8_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int32_t zero, int16_t *to) {
    const __m256i z = _mm256_set1_epi16((int16_t)zero);
    const ptrdiff_t depth = lb_up(k, 16);
    for (ptrdiff_t j = 0; j < lb_up(n, 16); j += 8) {
        int16_t *panel = to + j / 16 * 16 * depth + j % 16 * 2;
        for (ptrdiff_t i = 0; i < depth; i += 16) {
            __m256i v[8];
            for (ptrdiff_t r = 0; r < 8; r++)
                v[r] = j + r < n
                           ? _mm256_sub_epi16(_mm256_cvtepi8_epi16(lb_some_bytes(from + (j + r) * stride + i, k - i, (int8_t)zero)), z)
                           : _mm256_setzero_si256();
            lb_transpose8(v);
            for (ptrdiff_t r = 0; r < 8; r++)
                _mm256_store_si256((__m256i *)(void *)(panel + (i / 2 + r) * 32), v[r]);
        }
    }
}

/* Panels of b as it stands (values): `k` rows of `n` bytes, `stride` apart. k is padded to 2. */
static inline void lb_pack_rows_s8(const int8_t *from, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t k, int32_t zero, int16_t *to) {
    const __m256i z = _mm256_set1_epi16((int16_t)zero);
    const ptrdiff_t depth = lb_up(k, 2);
    for (ptrdiff_t j = 0; j < n; j += 16) {
        int16_t *panel = to + j * depth;
        for (ptrdiff_t i = 0; i < k; i += 2) {
            const __m256i u = _mm256_sub_epi16(_mm256_cvtepi8_epi16(lb_some_bytes(from + i * stride + j, n - j, (int8_t)zero)), z);
            const __m256i v =
                i + 1 < k ? _mm256_sub_epi16(_mm256_cvtepi8_epi16(lb_some_bytes(from + (i + 1) * stride + j, n - j, (int8_t)zero)), z)
                          : _mm256_setzero_si256();
            const __m256i low = _mm256_unpacklo_epi16(u, v), high = _mm256_unpackhi_epi16(u, v);
            _mm256_store_si256((__m256i *)(void *)(panel + i * 16), _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_store_si256((__m256i *)(void *)(panel + i * 16 + 16), _mm256_permute2x128_si256(low, high, 0x31));
        }
    }
}

#endif
