/* Products of matrices neither of which is packed beforehand. */
#ifndef LB_PANEL_AVX2_H
#define LB_PANEL_AVX2_H

#include "lb_tile_f32_avx2.h"

/* 8 rows of 8 floats, `stride` apart, turned into columns 16 apart. */
static inline void lb_turn8(const float *from, ptrdiff_t stride, float *to) {
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
        _mm256_storeu_ps(to + i * 16, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * 16, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Columns of b, at most 16, as a panel (k, 16) with zeros behind the last. */
static inline void lb_panel(const float *b, ptrdiff_t row, ptrdiff_t column, int32_t k, int32_t columns, float *to) {
    int32_t i = 0;
    if (row == 1 && columns == 16)
        for (; i <= k - 8; i += 8) {
            lb_turn8(b + i, column, to + (ptrdiff_t)i * 16);
            lb_turn8(b + 8 * column + i, column, to + (ptrdiff_t)i * 16 + 8);
        }
    for (; i < k; i++)
        for (int32_t j = 0; j < 16; j++)
            to[(ptrdiff_t)i * 16 + j] = j < columns ? b[i * row + j * column] : 0.0f;
}

/* out = a b; a has `rows` rows, b stands with any strides. scratch holds a panel. */
static inline void lb_rows_times(const float *a, ptrdiff_t a_row, int32_t rows, int32_t k, const float *b, ptrdiff_t b_row,
                                 ptrdiff_t b_column, int32_t n, float *scratch, float *out, ptrdiff_t out_row) {
    static const float zeros[LB_TILE_COLUMNS];
    const lb_tile_end e = {zeros, -LB_INFINITY, LB_INFINITY};
    for (int32_t j = 0; j < n; j += LB_TILE_COLUMNS) {
        const int32_t columns = n - j < LB_TILE_COLUMNS ? n - j : LB_TILE_COLUMNS;
        const float *panel = b + j * b_column;
        ptrdiff_t step = b_row;
        if (b_column != 1 || columns < LB_TILE_COLUMNS) {
            lb_panel(panel, b_row, b_column, k, columns, scratch);
            panel = scratch, step = LB_TILE_COLUMNS;
        }
        for (int32_t i = 0; i < rows; i += LB_TILE_ROWS) {
            const int32_t count = rows - i < LB_TILE_ROWS ? rows - i : LB_TILE_ROWS;
            const float *r[LB_TILE_ROWS];
            for (int32_t t = 0; t < LB_TILE_ROWS; t++)
                r[t] = a + (i + (t < count ? t : 0)) * a_row;
            lb_tile_f32(count, columns, r, 1, k, panel, step, &e, out + i * out_row + j, out_row);
        }
    }
}

#endif
