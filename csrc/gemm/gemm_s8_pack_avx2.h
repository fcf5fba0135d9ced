/* The right side of gemm_s8 on AVX2: b into panels of 16 columns (gemm_s8_avx2.h). */
#ifndef LB_GEMM_S8_PACK_AVX2_H
#define LB_GEMM_S8_PACK_AVX2_H

#include "gemm/gemm_s8_avx2.h"

typedef int8_t lb_byte_tile[LB_STEP][LB_PANEL];

/* 16 x 16 bytes across the diagonal: out[k][j] = b[j * stride + k]. Four rounds of interleaving registers i and i + 8. */
static inline void lb_transpose16(const int8_t *b, ptrdiff_t stride, lb_byte_tile out) {
    __m128i v[16], w[16];
    for (int i = 0; i < 16; i++)
        v[i] = _mm_loadu_si128((const __m128i *)(const void *)(b + i * stride));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            w[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]);
            w[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
        }
        memcpy(v, w, sizeof v);
    }
    for (int i = 0; i < 16; i++)
        _mm_storeu_si128((__m128i *)(void *)out[i], v[i]);
}

/* A tile at the edge of b. Elements outside hold the zero point, which is 0 after its subtraction. */
static inline void lb_gather16(const lb_gemm_s8_pack_params *p, const int8_t *b, int32_t rows, int32_t columns, const int32_t *zero_points,
                               lb_byte_tile out) {
    for (int32_t k = 0; k < LB_STEP; k++)
        for (int32_t j = 0; j < LB_PANEL; j++) {
            const int inside = k < rows && j < columns;
            out[k][j] = (int8_t)(inside ? b[k * p->row_stride + j * p->column_stride] : zero_points[j]);
        }
}

/* Four rows of 16 columns -> 64 int16, and the sums of w0 w1 + w2 w3 taken off pairs[0] (columns 0-7) and pairs[1]. */
static inline void lb_pack4(const int8_t *row, ptrdiff_t stride, __m128i flip, __m256i zero_point, int16_t *out, __m256i pairs[2]) {
    __m256i w[4];
    for (int i = 0; i < 4; i++) {
        const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(row + i * stride)), flip);
        w[i] = _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), zero_point);
    }
    for (int half = 0; half < 2; half++) { /* columns 0-7, 8-15 */
        __m256i both[2];
        for (int i = 0; i < 2; i++) { /* (w0, w2), (w1, w3): the interleaving works within 128 bits */
            const __m256i lo = _mm256_unpacklo_epi16(w[i], w[i + 2]), hi = _mm256_unpackhi_epi16(w[i], w[i + 2]);
            both[i] = half ? _mm256_permute2x128_si256(lo, hi, 0x31) : _mm256_permute2x128_si256(lo, hi, 0x20);
        }
        _mm256_store_si256((__m256i *)(void *)(out + 16 * half), both[1]);
        _mm256_store_si256((__m256i *)(void *)(out + 16 * half + 32), both[0]);
        pairs[half] = _mm256_sub_epi32(pairs[half], _mm256_madd_epi16(both[0], both[1]));
    }
}

/* b in panels, and for each segment and column the sum of w0 w1, negated. Without zero points they are 0. */
static inline void lb_pack_panels(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, int32_t *sums,
                                  int16_t *out) {
    const lb_cut cut = lb_cut_of(p->k, p->segment);
    const ptrdiff_t columns = lb_round_up(p->n, LB_PANEL);
    const __m128i flip = _mm_set1_epi8((char)(p->b_unsigned ? -128 : 0));
    _Alignas(16) lb_byte_tile tile;
    for (int32_t n = 0; n < p->n; n += LB_PANEL) {
        const int32_t width = p->n - n < LB_PANEL ? p->n - n : LB_PANEL;
        for (int32_t s = 0; s < cut.segments; s++) {
            int32_t z[LB_PANEL] = {0};
            int16_t z16[LB_PANEL];
            if (zero_points)
                memcpy(z, zero_points + (int64_t)s * p->n + n, sizeof *z * (size_t)width);
            for (int32_t j = 0; j < LB_PANEL; j++)
                z16[j] = (int16_t)(z[j] - (p->b_unsigned ? 128 : 0));
            const __m256i zero_point = _mm256_loadu_si256((const __m256i *)(const void *)z16);
            __m256i pairs[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
            const int32_t length = lb_segment_length(p->k, p->segment, s);
            for (int32_t k = 0; k < length; k += LB_STEP, out += LB_STEP * LB_PANEL) {
                const int32_t height = length - k < LB_STEP ? length - k : LB_STEP;
                const int8_t *from = b + ((int64_t)s * p->segment + k) * p->row_stride + n * p->column_stride;
                const int8_t *rows = tile[0];
                ptrdiff_t stride = LB_PANEL;
                if (width < LB_PANEL || height < LB_STEP || (p->column_stride != 1 && p->row_stride != 1))
                    lb_gather16(p, from, height, width, z, tile);
                else if (p->column_stride == 1)
                    rows = from, stride = (ptrdiff_t)p->row_stride;
                else
                    lb_transpose16(from, (ptrdiff_t)p->column_stride, tile);
                for (int i = 0; i < LB_STEP; i += 4)
                    lb_pack4(rows + i * stride, stride, flip, zero_point, out + i * LB_PANEL, pairs);
            }
            int32_t *to = sums + s * columns + n;
            _mm256_store_si256((__m256i *)(void *)to, pairs[0]);
            _mm256_store_si256((__m256i *)(void *)(to + 8), pairs[1]);
        }
    }
}

#endif
