/* Weights of four bits by vpdpbusd: w4_maddubs_avx2.h with sums of 32 bits, which need no chunks. Few rows meet nibbles, many rows meet
 * weights that were unpacked to bytes. */
#ifndef LB_W4_VNNI_H
#define LB_W4_VNNI_H

#include "linear/dot4/dot4_sums_vnni.h"
#include "int4/w4_rows_avx2.h"

/* acc += `groups` groups of a packed panel, for few rows: nibbles (unsigned) times x (signed). `weights` += the nibbles alone. */
LB_INLINE void lb_w4_few(const int rows, const uint8_t *a, ptrdiff_t stride, const uint8_t *packed, ptrdiff_t groups,
                         __m256i acc[LB_W4_FEW][2], const int summed, __m256i weights[2]) {
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi8(1);
    for (ptrdiff_t g = 0; g < groups; g++, packed += LB_W4_GROUP_BYTES, a += LB_W4_GROUP)
        LB_UNROLL_ALL
    for (int s = 0; s < 4; s++)
        LB_UNROLL_ALL
    for (int h = 0; h < 2; h++) {
        const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(packed + 64 * s + 32 * h));
        const __m256i w0 = _mm256_and_si256(v, low), w1 = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++) {
            const __m256i a0 = _mm256_set1_epi32(*(const lb_w4_dword *)(const void *)(a + i * stride + 4 * s));
            const __m256i a1 = _mm256_set1_epi32(*(const lb_w4_dword *)(const void *)(a + i * stride + 16 + 4 * s));
            acc[i][h] = lb_dpbusd256(lb_dpbusd256(acc[i][h], w0, a0), w1, a1);
        }
        if (summed)
            weights[h] = lb_dpbusd256(weights[h], _mm256_add_epi8(w0, w1), ones);
    }
}

/* `k` elements of a packed panel as bytes; start[j] = -offset * (sum of the weights of column j). */
static __attribute__((noinline)) void lb_w4_unpack(const uint8_t *packed, ptrdiff_t k, int32_t offset, int8_t *panel, int32_t start[16]) {
    const __m256i low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8), ones = _mm256_set1_epi8(1);
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (ptrdiff_t g = 0; g < k; g += LB_W4_GROUP, packed += LB_W4_GROUP_BYTES, panel += 2 * LB_W4_GROUP_BYTES)
        for (int i = 0; i < 8; i++) {
            const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(packed + 32 * i));
            const __m256i a = _mm256_sub_epi8(_mm256_and_si256(v, low), eight);
            const __m256i b = _mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), eight);
            sums[i % 2] = lb_dpbusd256(sums[i % 2], ones, _mm256_add_epi8(a, b));
            _mm256_store_si256((__m256i *)(void *)(panel + 32 * i), a);
            _mm256_store_si256((__m256i *)(void *)(panel + LB_W4_GROUP_BYTES + 32 * i), b);
        }
    for (int i = 0; i < 2; i++)
        _mm256_store_si256((__m256i *)(void *)(start + 8 * i), _mm256_mullo_epi32(sums[i], _mm256_set1_epi32(-offset)));
}

/* s.acc (rows x 16) = one segment of many rows and a panel. */
static inline void lb_w4_one_segment(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed) {
    _Alignas(64) int32_t start[16];
    memset(s->acc, 0, 64 * (size_t)rows);
    for (ptrdiff_t at = 0; at < p->cut.depth; at += LB_W4_DEPTH) {
        const ptrdiff_t k = p->cut.depth - at < LB_W4_DEPTH ? p->cut.depth - at : LB_W4_DEPTH;
        lb_w4_unpack(packed + 8 * at, k, 128 + p->x_zero, s->panel, start);
        for (ptrdiff_t i = 0; i < 16 * rows; i++)
            s->acc[i] = (int32_t)((uint32_t)s->acc[i] + (uint32_t)start[i % 16]);
        lb_dot4_panels_into(1, rows, s->a + at, s->stride, s->panel, 0, k / 4, NULL, s->acc, 16);
    }
}

/* total (rows x 16) += `quads` quads of an unpacked segment, scaled. */
LB_INLINE void lb_w4_segment_tile(const int rows, const uint8_t *a, ptrdiff_t stride, const int8_t *panel, ptrdiff_t quads,
                                  const int32_t start[16], const float *scales, float *total) {
    lb_vec c[LB_ROWS][2];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < LB_PANEL_VECS; j++)
        c[i][j] = lb_vec_load(start + j * LB_LANES);
    lb_dot4_steps(rows, LB_PANEL_VECS, a, stride, panel, 32, quads, c);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        const __m256 acc[2] = {_mm256_cvtepi32_ps(lb_vec_low(c[i])), _mm256_cvtepi32_ps(lb_vec_high(c[i]))};
        LB_UNROLL_ALL
        for (int h = 0; h < 2; h++) {
            const __m256 scale = _mm256_loadu_ps(scales + 8 * h);
            float *to = total + 16 * i + 8 * h;
            _mm256_store_ps(to, _mm256_add_ps(_mm256_load_ps(to), _mm256_mul_ps(acc[h], scale)));
        }
    }
}

/* Tiles as functions, so that each has the registers for itself. */
#define LB_W4_SEGMENT_TILE_OF(name, rows)                                                                                                  \
    static __attribute__((noinline)) void lb_w4_segment_tile##name(const uint8_t *a, ptrdiff_t stride, const int8_t *panel,                \
                                                                   ptrdiff_t quads, const int32_t start[16], const float *scales,          \
                                                                   float *total) {                                                         \
        lb_w4_segment_tile(rows, a, stride, panel, quads, start, scales, total);                                                           \
    }

LB_W4_SEGMENT_TILE_OF(_most, LB_ROWS)
LB_W4_SEGMENT_TILE_OF(_two, 2)
LB_W4_SEGMENT_TILE_OF(_one, 1)

/* s.acc (rows x 16) = the scaled sum of all segments of many rows and a panel. */
static inline void lb_w4_segments(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed,
                                  const float *scales) {
    _Alignas(64) int32_t start[16];
    memset(s->acc, 0, 64 * (size_t)rows);
    for (int32_t g = 0; g < p->cut.segments; g++) {
        const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
        const uint8_t *a = s->a + g * p->cut.stride;
        float *total = (float *)(void *)s->acc;
        lb_w4_unpack(packed + 8 * g * p->cut.stride, k, 128 + p->x_zero, s->panel, start);
        for (ptrdiff_t i = 0, step; i < rows; i += step, a += step * s->stride, total += 16 * step) {
            step = rows - i >= LB_ROWS ? LB_ROWS : rows - i >= 2 ? 2 : 1;
            if (step == LB_ROWS)
                lb_w4_segment_tile_most(a, s->stride, s->panel, k / 4, start, scales + 16 * g, total);
            else if (step == 2)
                lb_w4_segment_tile_two(a, s->stride, s->panel, k / 4, start, scales + 16 * g, total);
            else
                lb_w4_segment_tile_one(a, s->stride, s->panel, k / 4, start, scales + 16 * g, total);
        }
    }
}

#endif
