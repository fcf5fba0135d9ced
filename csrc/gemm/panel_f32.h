/* Products of matrices neither of which is packed beforehand. The words of vectors (f32_avx2.h or another) stand before this. */
#ifndef LB_PANEL_F32_H
#define LB_PANEL_F32_H

#include "gemm/microkernel_f32.h"

/* 8 rows of 8 floats, `stride` apart, turned into columns `apart` from each other. */
static inline void lb_turn8(const float *from, ptrdiff_t stride, float *to, ptrdiff_t apart) {
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(from + i * stride);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * apart, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * apart, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Columns of b, at most LB_TILE_COLUMNS, as a panel (k, LB_TILE_COLUMNS) with zeros after the last, as far as vectors reach. */
static inline void lb_panel(const float *b, ptrdiff_t row, ptrdiff_t column, int32_t k, int32_t columns, float *to) {
    const int32_t wide = columns > LB_LANES ? LB_TILE_COLUMNS : LB_LANES;
    if (column == 1) {
        for (int32_t i = 0; i < k; i++, b += row, to += LB_TILE_COLUMNS)
            for (int32_t j = 0; j < wide; j += LB_LANES) {
                const int32_t left = columns - j;
                lb_v_store(to + j, left > 0 ? lb_v_get(b + j, left < LB_LANES ? left : LB_LANES, 0.0f) : lb_v_zero());
            }
        return;
    }
    for (int32_t j = 0; j < wide; j += 8) {
        int32_t i = 0;
        if (row == 1 && columns - j >= 8)
            for (; i <= k - 8; i += 8)
                lb_turn8(b + j * column + i, column, to + (ptrdiff_t)i * LB_TILE_COLUMNS + j, LB_TILE_COLUMNS);
        for (; i < k; i++)
            for (int32_t t = j; t < j + 8; t++)
                to[(ptrdiff_t)i * LB_TILE_COLUMNS + t] = t < columns ? b[i * row + t * column] : 0.0f;
    }
}

/* out = a b; a has `rows` rows, b stands with any strides. scratch holds a panel of LB_TILE_COLUMNS columns. */
static inline void lb_rows_times(const float *a, ptrdiff_t a_row, int32_t rows, int32_t k, const float *b, ptrdiff_t b_row,
                                 ptrdiff_t b_column, int32_t n, float *scratch, float *out, ptrdiff_t out_row) {
    static const float zeros[LB_TILE_COLUMNS];
    const lb_tile_end e = {zeros, -LB_INFINITY, LB_INFINITY};
    const int32_t high = lb_tile_even(rows, LB_TILE_ROWS);
    for (int32_t j = 0; j < n; j += LB_TILE_COLUMNS) {
        const int32_t columns = n - j < LB_TILE_COLUMNS ? n - j : LB_TILE_COLUMNS;
        const float *panel = b + j * b_column;
        lb_tile_b to = {b_row, LB_LANES, 0};
        if (b_column != 1 || columns % LB_LANES) {
            lb_panel(panel, b_row, b_column, k, columns, scratch);
            panel = scratch, to.step = LB_TILE_COLUMNS;
        }
        for (int32_t i = 0; i < rows; i += high) {
            const int32_t count = rows - i < high ? rows - i : high;
            const float *r[LB_TILE_ROWS];
            for (int32_t t = 0; t < count; t++)
                r[t] = a + (i + t) * a_row;
            lb_tile_f32(count, columns, r, 1, k, panel, to, &e, out + i * out_row + j, out_row);
        }
    }
}

#endif
