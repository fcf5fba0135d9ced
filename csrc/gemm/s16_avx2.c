/* b = 256 * high + low with low in -128 ... 127 and high in -128 ... 128, so that vpmaddwd of a with either is at most 2^23, and
 * 128 of those fit int32. Then they go to int64. Panels of 8 columns, packed into scratch: for two k, (low, low) of each column and
 * (high, high) of each. */
#include "lb.h"

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

lb_gemm_s16_s64_fn lb_gemm_s16_s64__avx2;

enum { PANEL = 8, TILE = 4, PAIRS = 128 };

static void pack_panel(const int16_t *b, int64_t stride, int32_t k, int32_t columns, int16_t *out) {
    for (int32_t i = 0; i < k; i += 2, out += 4 * PANEL) {
        int16_t rows[2][PANEL] = {{0}};
        for (int32_t r = 0; r < 2 && i + r < k; r++)
            memcpy(rows[r], b + (i + r) * stride, sizeof(int16_t) * (size_t)columns);
        __m128i low[2], high[2];
        for (int r = 0; r < 2; r++) {
            const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)rows[r]);
            low[r] = _mm_srai_epi16(_mm_slli_epi16(v, 8), 8);
            high[r] = _mm_sub_epi16(_mm_srai_epi16(v, 8), _mm_srai_epi16(low[r], 15));
        }
        __m128i *to = (__m128i *)(void *)out;
        _mm_store_si128(to, _mm_unpacklo_epi16(low[0], low[1]));
        _mm_store_si128(to + 1, _mm_unpackhi_epi16(low[0], low[1]));
        _mm_store_si128(to + 2, _mm_unpacklo_epi16(high[0], high[1]));
        _mm_store_si128(to + 3, _mm_unpackhi_epi16(high[0], high[1]));
    }
}

/* low += a * (w[0] of a panel), high += a * w[1], for two k in each dword of a. */
static inline void step(__m256i *low, __m256i *high, int32_t pair, const __m256i *w) {
    const __m256i v = _mm256_set1_epi32(pair);
    *low = _mm256_add_epi32(*low, _mm256_madd_epi16(v, w[0]));
    *high = _mm256_add_epi32(*high, _mm256_madd_epi16(v, w[1]));
}

static inline __attribute__((always_inline)) void tile(const int rows, const int16_t *a, int64_t stride, const int16_t *panel, int32_t k,
                                                       int64_t out[TILE][PANEL]) {
    __m256i total[TILE][2];
    for (int r = 0; r < rows; r++)
        total[r][0] = total[r][1] = _mm256_setzero_si256();
    const __m256i *w = (const __m256i *)(const void *)panel;
    const int32_t pairs = k / 2;
    for (int32_t from = 0; 2 * (int64_t)from < k; from += PAIRS) {
        const int32_t end = pairs - from < PAIRS ? pairs : from + PAIRS;
        __m256i low[TILE], high[TILE];
        for (int r = 0; r < rows; r++)
            low[r] = high[r] = _mm256_setzero_si256();
        for (int32_t i = from; i < end; i++, w += 2)
            for (int r = 0; r < rows; r++) {
                int32_t pair;
                memcpy(&pair, a + r * stride + 2 * (ptrdiff_t)i, sizeof pair);
                step(&low[r], &high[r], pair, w);
            }
        if (end == pairs && end - from < PAIRS && k % 2) /* the last k stands alone; the panel has zeros beside it */
            for (int r = 0; r < rows; r++)
                step(&low[r], &high[r], a[r * stride + k - 1], w);
        for (int r = 0; r < rows; r++)
            for (int half = 0; half < 2; half++) {
                const __m128i l = half ? _mm256_extracti128_si256(low[r], 1) : _mm256_castsi256_si128(low[r]);
                const __m128i h = half ? _mm256_extracti128_si256(high[r], 1) : _mm256_castsi256_si128(high[r]);
                const __m256i sum = _mm256_add_epi64(_mm256_cvtepi32_epi64(l), _mm256_slli_epi64(_mm256_cvtepi32_epi64(h), 8));
                total[r][half] = _mm256_add_epi64(total[r][half], sum);
            }
    }
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_si256((__m256i *)(void *)out[r], total[r][0]);
        _mm256_storeu_si256((__m256i *)(void *)(out[r] + 4), total[r][1]);
    }
}

void lb_gemm_s16_s64__avx2(const lb_gemm_s16_s64_params *p, const int16_t *a, const int16_t *b, int64_t *out, void *scratch) {
    for (int32_t n = 0; n < p->n; n += PANEL) {
        const int32_t columns = p->n - n < PANEL ? p->n - n : PANEL;
        pack_panel(b + n, p->b_stride, p->k, columns, scratch);
        for (int32_t m = 0; m < p->m; m += TILE) {
            const int32_t rows = p->m - m < TILE ? p->m - m : TILE;
            int64_t y[TILE][PANEL];
            if (rows == TILE)
                tile(TILE, a + m * p->a_stride, p->a_stride, scratch, p->k, y);
            else
                for (int32_t r = 0; r < rows; r++)
                    tile(1, a + (m + r) * p->a_stride, p->a_stride, scratch, p->k, y + r);
            for (int32_t r = 0; r < rows; r++)
                memcpy(out + (m + r) * p->out_stride + n, y[r], sizeof(int64_t) * (size_t)columns);
        }
    }
}
