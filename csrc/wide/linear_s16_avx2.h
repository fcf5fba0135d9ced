/* linear_s16 on AVX2: vpmaddwd of rows as they stand with panels of weights (madd16_avx2.h).
 *
 * Packed weights: a head of 64 bytes (planes, narrow), the sum of the weights of each column (int64, columns rounded up to 16), then one
 * plane of panels for weights of 8 bits, two for wider ones: w = plane 0 + 256 * plane 1 with plane 0 in -128 ... 127 and plane 1 in
 * -128 ... 128. Two products are then at most 2^23. Where the caller proved that sums with their bias stay within 32 bits (narrow), they
 * are taken modulo 2^32; else 128 pairs at a time, and those in doubles, which are exact up to 2^53. */
#ifndef LB_LINEAR_S16_AVX2_H
#define LB_LINEAR_S16_AVX2_H

#include "linear/linear_blocks.h"
#include "base/store_avx2.h"
#include "gemm/madd16_avx2.h"

enum { LB_S16_ROWS = 48, LB_S16_PAIRS = 128 };

typedef struct {
    int32_t planes, narrow;
    const int64_t *sums;
    const int16_t *panels;
    ptrdiff_t plane, panel; /* elements from plane to plane, from panel to panel */
} lb_s16_weights;

static inline lb_s16_weights lb_s16_weights_of(const void *w, int32_t n, int32_t k) {
    const int32_t *head = w;
    const ptrdiff_t columns = lb_up(n, 16), panel = lb_up(k, 2) * 16;
    const int64_t *sums = (const int64_t *)(const void *)((const char *)w + 64);
    return (lb_s16_weights){head[0], head[1], sums, (const int16_t *)(const void *)(sums + columns), columns / 16 * panel, panel};
}

/* c (rows x 16) = pairs from ... to - 1 of some rows and one panel; where `more`, added. k may be odd: its last stands alone. */
static inline void lb_s16_pairs(ptrdiff_t rows, const int16_t *x, int32_t k, const int16_t *panel, int32_t from, int32_t to, int32_t *c,
                                int more) {
    const int32_t whole = to < k / 2 ? to : k / 2;
    if (from < whole) {
        lb_words(rows, x + 2 * (ptrdiff_t)from, k, panel + 32 * (ptrdiff_t)from, whole - from, c, 16, more);
        more = 1;
    }
    if (to > k / 2) {
        int16_t last[2 * LB_S16_ROWS];
        for (ptrdiff_t r = 0; r < rows; r++) {
            last[2 * r] = x[r * k + k - 1];
            last[2 * r + 1] = 0;
        }
        lb_words(rows, last, 2, panel + 32 * (ptrdiff_t)(k / 2), 1, c, 16, more);
    }
}

/* Column sums of `rows` rows as fl32(acc), by 32 bits. */
static inline void lb_s16_narrow(ptrdiff_t rows, const int16_t *x, int32_t k, const int16_t *panel, const int64_t *start, float *acc) {
    int32_t *c = (int32_t *)(void *)acc;
    const int32_t pairs = (k + 1) / 2;
    if (!pairs)
        memset(c, 0, 64 * (size_t)rows);
    for (int32_t at = 0; at < pairs; at += 2 * LB_S16_PAIRS)
        lb_s16_pairs(rows, x, k, panel, at, pairs - at < 2 * LB_S16_PAIRS ? pairs : at + 2 * LB_S16_PAIRS, c, at > 0);
    _Alignas(32) uint32_t first[16];
    for (int i = 0; i < 16; i++)
        first[i] = (uint32_t)start[i];
    const __m256i *const s = (const __m256i *)(const void *)first;
    for (ptrdiff_t i = 0; i < 2 * rows; i++) {
        const __m256i sum = _mm256_add_epi32(_mm256_load_si256((const __m256i *)(const void *)(c + 8 * i)), s[i % 2]);
        _mm256_store_ps(acc + 8 * i, _mm256_cvtepi32_ps(sum));
    }
}

/* The same by doubles. */
static inline void lb_s16_wide(ptrdiff_t rows, const int16_t *x, int32_t k, const lb_s16_weights *w, const int16_t *panel,
                               const int64_t *start, float *acc) {
    _Alignas(32) double total[LB_S16_ROWS * 16];
    _Alignas(32) int32_t c[LB_S16_ROWS * 16];
    const int32_t pairs = (k + 1) / 2;
    for (ptrdiff_t i = 0; i < rows * 16; i++)
        total[i] = (double)start[i % 16];
    for (int32_t plane = 0; plane < w->planes; plane++, panel += w->plane)
        for (int32_t at = 0; at < pairs; at += LB_S16_PAIRS) {
            lb_s16_pairs(rows, x, k, panel, at, pairs - at < LB_S16_PAIRS ? pairs : at + LB_S16_PAIRS, c, 0);
            const __m256d factor = _mm256_set1_pd(plane ? 256.0 : 1.0);
            for (ptrdiff_t i = 0; i < rows * 16; i += 4) {
                const __m256d part = _mm256_mul_pd(_mm256_cvtepi32_pd(_mm_load_si128((const __m128i *)(const void *)(c + i))), factor);
                _mm256_store_pd(total + i, _mm256_add_pd(_mm256_load_pd(total + i), part));
            }
        }
    for (ptrdiff_t i = 0; i < rows * 16; i += 4)
        _mm_store_ps(acc + i, _mm256_cvtpd_ps(_mm256_load_pd(total + i)));
}

/* Results of at most LB_S16_ROWS rows and the (at most 16) columns n ... right - 1, from element `at` of out on. */
static inline void lb_s16_panel(const lb_s16_weights *w, int32_t n, int32_t right, ptrdiff_t rows, const int16_t *x, int32_t k,
                                int32_t x_zero, const int64_t *bias, const float *multiplier, void *out, ptrdiff_t at, ptrdiff_t out_stride,
                                const lb_target *target) {
    const ptrdiff_t width = right - n < 16 ? right - n : 16;
    int64_t start[16] = {0};
    _Alignas(32) float m[16] = {0}, acc[LB_S16_ROWS * 16];
    for (ptrdiff_t j = 0; j < width; j++) {
        start[j] = bias[n + j] - x_zero * w->sums[n + j];
        m[j] = multiplier[n + j];
    }
    const int16_t *panel = w->panels + n / 16 * w->panel;
    if (w->narrow)
        lb_s16_narrow(rows, x, k, panel, start, acc);
    else
        lb_s16_wide(rows, x, k, w, panel, start, acc);
    for (ptrdiff_t r = 0; r < rows; r++, at += out_stride) {
        lb_put8(out, at, _mm256_mul_ps(_mm256_load_ps(acc + 16 * r), _mm256_load_ps(m)), width, target);
        if (width > 8)
            lb_put8(out, at + 8, _mm256_mul_ps(_mm256_load_ps(acc + 16 * r + 8), _mm256_load_ps(m + 8)), width - 8, target);
    }
}

static inline void lb_linear_s16_avx2(const lb_linear_s8_params *p, const int16_t *x, const void *packed, const int64_t *bias,
                                      const float *multiplier, void *out, int32_t out_bytes, int32_t begin, int32_t end) {
    const lb_s16_weights w = lb_s16_weights_of(packed, p->n, p->k);
    const lb_target target = lb_target_of(out_bytes, p->y_zero, p->lo, p->hi);
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t n = b.left; n < b.right; n += 16)
            for (int32_t row = b.top; row < b.bottom; row += LB_S16_ROWS) {
                const ptrdiff_t rows = b.bottom - row < LB_S16_ROWS ? b.bottom - row : LB_S16_ROWS;
                lb_s16_panel(&w, n, b.right, rows, x + (ptrdiff_t)row * p->k, p->k, p->x_zero, bias, multiplier, out,
                             (ptrdiff_t)row * p->out_stride + n, p->out_stride, &target);
            }
    }
}

#endif
