/* gemm_s8 by vpdpbusd. a is unsigned, as it is or flipped (+ 128); b is signed, likewise. With the zero points A and B that go with that,
 *
 *   sum of (a - A) (b - B)  =  sum of a b  -  A * (sum of b)  -  B * (sum of a - A)        modulo 2^32
 *
 * A packed b: for each segment the sums of its columns and their zero points (columns are n rounded up to 16), then panels of quads, in
 * which segments are padded with zeros to multiples of 4. Include after dot4_avxvnni.h or dot4_avx512vnni.h. */
#ifndef LB_GEMM_S8_VNNI_H
#define LB_GEMM_S8_VNNI_H

#include "gemm/gemm_s8.h"
#include "linear/dot4/dot4_sums_vnni.h"

typedef struct {
    int32_t segments;
    ptrdiff_t stride, depth; /* of a padded segment, of all */
} lb_dot4_cut;

static inline lb_dot4_cut lb_dot4_cut_of(int32_t k, int32_t segment) {
    const int32_t segments = lb_segments(k, segment);
    const ptrdiff_t stride = lb_dot4_up(k < segment ? k : segment, 4);
    return (lb_dot4_cut){segments, stride, (segments - 1) * stride + lb_dot4_up(lb_segment_length(k, segment, segments - 1), 4)};
}

static inline ptrdiff_t lb_dot4_segment(const lb_dot4_cut *cut, int32_t s) {
    return s == cut->segments - 1 ? cut->depth - s * cut->stride : cut->stride;
}

/* Parts of scratch: LB_BLOCK rows of a at a time, for each segment of each row A and the sum of a - A, and the accumulators of a tile's
 * columns. */
enum { LB_BLOCK = 96 };

typedef struct {
    ptrdiff_t rows, stride;
    uint8_t *a;
    int32_t *zero, *rest; /* segments x rows */
    int32_t *acc;         /* rows x LB_COLUMNS */
    float *total;         /* the same */
    ptrdiff_t bytes;
} lb_dot4_scratch;

static inline lb_dot4_scratch lb_dot4_scratch_at(void *base, int32_t m, const lb_dot4_cut *cut) {
    const ptrdiff_t rows = m < LB_BLOCK ? m : LB_BLOCK, stride = 64 * ((cut->depth + 63) / 64 | 1);
    const ptrdiff_t numbers = lb_dot4_up(4 * rows * cut->segments, 64), tile = 4 * LB_COLUMNS * rows;
    char *a = base, *zero = a + rows * stride, *acc = zero + 2 * numbers;
    return (lb_dot4_scratch){rows,
                             stride,
                             (uint8_t *)a,
                             (int32_t *)(void *)zero,
                             (int32_t *)(void *)(zero + numbers),
                             (int32_t *)(void *)acc,
                             (float *)(void *)(acc + tile),
                             rows * stride + 2 * numbers + 2 * tile};
}

static inline void lb_dot4_gemm_sizes(const lb_gemm_s8_sizes_params *p, int64_t *bytes) {
    const lb_dot4_cut cut = lb_dot4_cut_of(p->k, p->segment);
    bytes[0] = lb_dot4_up(p->n, LB_DOT4_PANEL) * (8 * cut.segments + cut.depth);
    bytes[1] = lb_dot4_scratch_at(0, p->m, &cut).bytes;
}

static inline int8_t *lb_dot4_gemm_panels(const void *packed, int32_t n, const lb_dot4_cut *cut) {
    return (int8_t *)packed + 8 * cut->segments * lb_dot4_up(n, LB_DOT4_PANEL);
}

static inline void lb_dot4_gemm_pack(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed) {
    const lb_dot4_cut cut = lb_dot4_cut_of(p->k, p->segment);
    const ptrdiff_t columns = lb_dot4_up(p->n, LB_DOT4_PANEL);
    const int8_t flip = p->b_unsigned ? -128 : 0;
    int32_t *numbers = packed;
    memset(packed, 0, (size_t)(columns * (8 * cut.segments + cut.depth)));
    for (int32_t s = 0; s < cut.segments; s++) {
        const ptrdiff_t length = lb_segment_length(p->k, p->segment, s);
        int32_t *sums = numbers + 2 * s * columns, *zeros = sums + columns;
        for (ptrdiff_t j = 0; j < p->n; j++) {
            const int8_t *from = b + (int64_t)s * p->segment * p->row_stride + j * p->column_stride;
            int8_t *to = lb_dot4_gemm_panels(packed, p->n, &cut) + j / 16 * 16 * cut.depth + 16 * s * cut.stride + j % 16 * 4;
            int32_t sum = 0;
            for (ptrdiff_t i = 0; i < length; i++, from += p->row_stride) {
                const int8_t v = (int8_t)(*from ^ flip);
                to[i / 4 * 64 + i % 4] = v;
                sum += v;
            }
            sums[j] = sum, zeros[j] = zero_points[(int64_t)s * p->n + j] + flip;
        }
    }
}

/* Rows `at` and following of a. */
static inline void lb_dot4_gemm_rows(const lb_dot4_scratch *t, const lb_dot4_cut *cut, const int8_t *a, int64_t stride, int32_t a_unsigned,
                                     const int32_t *zero_points, int32_t m, int32_t k, int32_t segment, ptrdiff_t at, ptrdiff_t rows) {
    const uint8_t flip = a_unsigned ? 0 : 0x80;
    for (ptrdiff_t i = 0; i < rows; i++)
        for (int32_t s = 0; s < cut->segments; s++) {
            const int8_t *from = a + (at + i) * stride + (int64_t)s * segment;
            uint8_t *to = t->a + i * t->stride + s * cut->stride;
            const int32_t length = lb_segment_length(k, segment, s), zero = zero_points[(int64_t)s * m + at + i] + flip;
            uint32_t sum = 0;
            for (int32_t j = 0; j < length; j++) {
                to[j] = (uint8_t)from[j] ^ flip;
                sum += to[j];
            }
            t->zero[s * t->rows + i] = zero, t->rest[s * t->rows + i] = (int32_t)(sum - (uint32_t)length * (uint32_t)zero);
        }
}

/* t.acc = acc of segment s for `rows` rows and the columns of `panels` panels from n on. */
static inline void lb_dot4_gemm_acc(const lb_dot4_scratch *t, const lb_dot4_cut *cut, const void *packed, int32_t columns, int32_t s,
                                    ptrdiff_t n, ptrdiff_t panels, ptrdiff_t rows) {
    const ptrdiff_t all = lb_dot4_up(columns, LB_DOT4_PANEL);
    const int32_t *sums = (const int32_t *)packed + 2 * s * all + n, *zeros = sums + all;
    for (ptrdiff_t i = 0; i < rows; i++) {
        const __m256i zero = _mm256_set1_epi32(t->zero[s * t->rows + i]), rest = _mm256_set1_epi32(t->rest[s * t->rows + i]);
        for (ptrdiff_t j = 0; j < 16 * panels; j += 8) {
            const __m256i a = _mm256_mullo_epi32(zero, _mm256_load_si256((const __m256i *)(const void *)(sums + j)));
            const __m256i b = _mm256_mullo_epi32(rest, _mm256_load_si256((const __m256i *)(const void *)(zeros + j)));
            _mm256_store_si256((__m256i *)(void *)(t->acc + i * LB_COLUMNS + j),
                               _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_add_epi32(a, b)));
        }
    }
    const int8_t *w = lb_dot4_gemm_panels(packed, columns, cut) + n * cut->depth + 16 * s * cut->stride;
    lb_dot4_panels_into(panels, rows, t->a + s * cut->stride, t->stride, w, 16 * cut->depth, lb_dot4_segment(cut, s) / 4, NULL, t->acc,
                        LB_COLUMNS);
}

static inline ptrdiff_t lb_dot4_gemm_panels_at(int32_t columns, ptrdiff_t n) {
    return LB_LANES == 16 && columns - n > LB_DOT4_PANEL ? 2 : 1;
}

/* The first columns of a row of t.acc or t.total. */
static inline void lb_dot4_gemm_store(void *out, const void *from, ptrdiff_t left) {
    memcpy(out, from, 4 * (size_t)(left < LB_COLUMNS ? left : LB_COLUMNS));
}

static inline void lb_dot4_gemm_s32(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed,
                                    int32_t *out, void *scratch) {
    const int32_t segment = p->k ? p->k : 1;
    const lb_dot4_cut cut = lb_dot4_cut_of(p->k, segment);
    const lb_dot4_scratch t = lb_dot4_scratch_at(scratch, p->m, &cut);
    for (ptrdiff_t at = 0; at < p->m; at += LB_BLOCK) {
        const ptrdiff_t rows = p->m - at < LB_BLOCK ? p->m - at : LB_BLOCK;
        lb_dot4_gemm_rows(&t, &cut, a, p->a_stride, p->a_unsigned, a_zero_points, p->m, p->k, segment, at, rows);
        for (ptrdiff_t n = 0; n < p->n; n += LB_COLUMNS) {
            lb_dot4_gemm_acc(&t, &cut, packed, p->n, 0, n, lb_dot4_gemm_panels_at(p->n, n), rows);
            for (ptrdiff_t i = 0; i < rows; i++)
                lb_dot4_gemm_store(out + (at + i) * p->out_stride + n, t.acc + i * LB_COLUMNS, p->n - n);
        }
    }
}

static inline void lb_dot4_gemm_f32(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const float *a_scales,
                                    const void *packed, const float *b_scales, float *out, void *scratch) {
    const lb_dot4_cut cut = lb_dot4_cut_of(p->k, p->segment);
    const lb_dot4_scratch t = lb_dot4_scratch_at(scratch, p->m, &cut);
    for (ptrdiff_t at = 0; at < p->m; at += LB_BLOCK) {
        const ptrdiff_t rows = p->m - at < LB_BLOCK ? p->m - at : LB_BLOCK;
        lb_dot4_gemm_rows(&t, &cut, a, p->a_stride, p->a_unsigned, a_zero_points, p->m, p->k, p->segment, at, rows);
        for (ptrdiff_t n = 0; n < p->n; n += LB_COLUMNS) {
            for (ptrdiff_t i = 0; i < rows * LB_COLUMNS; i++)
                t.total[i] = p->start;
            for (int32_t s = 0; s < cut.segments; s++) {
                const ptrdiff_t panels = lb_dot4_gemm_panels_at(p->n, n);
                _Alignas(32) float scales[LB_COLUMNS] = {0};
                lb_dot4_gemm_store(scales, b_scales + (int64_t)s * p->n + n, p->n - n);
                lb_dot4_gemm_acc(&t, &cut, packed, p->n, s, n, panels, rows);
                for (ptrdiff_t i = 0; i < rows; i++) {
                    const __m256 sa = _mm256_set1_ps(a_scales[(int64_t)s * p->m + at + i]);
                    for (ptrdiff_t j = 0; j < 16 * panels; j += 8) {
                        float *total = t.total + i * LB_COLUMNS + j;
                        const __m256i acc = _mm256_load_si256((const __m256i *)(const void *)(t.acc + i * LB_COLUMNS + j));
                        const __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_mul_ps(sa, _mm256_load_ps(scales + j)));
                        _mm256_store_ps(total, _mm256_add_ps(_mm256_load_ps(total), y));
                    }
                }
            }
            for (ptrdiff_t i = 0; i < rows; i++)
                lb_dot4_gemm_store(out + (at + i) * p->out_stride + n, t.total + i * LB_COLUMNS, p->n - n);
        }
    }
}

#endif
