/* linear_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_LINEAR_F32_SIMD_H
#define LB_LINEAR_F32_SIMD_H

#include "lb.h"
#include "gemm/lines_f32.h"

enum { ALIAS = 512, APART = 16, CHAINS = 4 }; /* rows a multiple of 2 KiB apart share few lines of the cache: they are copied apart */

/* One row in all: the weights are read once, and the sum is made in four parts, since nothing else fills the pipeline. */
static void single_row(const lb_linear_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t left,
                       int32_t right) {
    const lb_v lo = lb_v_all(p->lo), hi = lb_v_all(p->hi);
    for (int32_t j = left; j < right; j += LB_PANEL) {
        enum { VECTORS = LB_PANEL / LB_LANES };
        const float *b = w + (ptrdiff_t)j * p->k;
        lb_v s[CHAINS][VECTORS];
        for (int i = 0; i < CHAINS; i++)
            for (int v = 0; v < VECTORS; v++)
                s[i][v] = lb_v_zero();
        int32_t k = 0;
        for (; k <= p->k - CHAINS; k += CHAINS, b += CHAINS * LB_PANEL) {
            const uintptr_t soon = (uintptr_t)b + 64 * LB_PANEL; /* a number: after the weights no pointer may lead */
            _mm_prefetch((const char *)soon, _MM_HINT_T0);
            _mm_prefetch((const char *)(soon + 64), _MM_HINT_T0);
            _mm_prefetch((const char *)(soon + 128), _MM_HINT_T0);
            _mm_prefetch((const char *)(soon + 192), _MM_HINT_T0);
#pragma GCC unroll 4
            for (int i = 0; i < CHAINS; i++) {
                const lb_v a = lb_v_all(x[k + i]);
#pragma GCC unroll 2
                for (int v = 0; v < VECTORS; v++)
                    s[i][v] = lb_v_fma(a, lb_v_load(b + i * LB_PANEL + v * LB_LANES), s[i][v]);
            }
        }
        for (; k < p->k; k++, b += LB_PANEL)
            for (int v = 0; v < VECTORS; v++)
                s[0][v] = lb_v_fma(lb_v_all(x[k]), lb_v_load(b + v * LB_LANES), s[0][v]);
        float sums[LB_PANEL], biases[LB_PANEL] = {0};
        const int32_t columns = right - j < LB_PANEL ? right - j : LB_PANEL;
        memcpy(biases, bias + j, sizeof *bias * (size_t)columns);
        for (int v = 0; v < VECTORS; v++) {
            const lb_v sum = lb_v_add(lb_v_add(s[0][v], s[1][v]), lb_v_add(s[2][v], s[3][v]));
            lb_v_store(sums + v * LB_LANES, LB_V(clamp)(lb_v_add(sum, lb_v_load(biases + v * LB_LANES)), lo, hi));
        }
        memcpy(out + j, sums, sizeof *out * (size_t)columns);
    }
}

void LB_SIMD(linear_f32)(const lb_linear_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                         int32_t begin, int32_t end) {
    const int32_t across = (p->n + p->block_columns - 1) / p->block_columns;
    const int apart = p->k && p->k % ALIAS == 0 && p->rows > 1;
    const ptrdiff_t stride = apart ? p->k + APART : p->k;
    lb_lines l = {1, p->k, 0, 0};
    int32_t copied = -1;
    for (int32_t item = begin; item < end; item++) {
        const int32_t top = item / across * p->block_rows, left = item % across * p->block_columns;
        const int32_t bottom = p->rows - top < p->block_rows ? p->rows : top + p->block_rows;
        const int32_t right = p->n - left < p->block_columns ? p->n : left + p->block_columns;
        if (p->rows == 1) {
            single_row(p, x, w, bias, out, left, right);
            continue;
        }
        const float *rows = x + (ptrdiff_t)top * p->k;
        if (apart) {
            if (copied != top)
                for (int32_t i = top; i < bottom; i++)
                    memcpy((float *)scratch + (i - top) * stride, x + (ptrdiff_t)i * p->k, sizeof *x * (size_t)p->k);
            copied = top;
            rows = scratch;
        }
        for (int32_t j = left; j < right; j += LB_TILE_COLUMNS) {
            const int32_t columns = right - j < LB_TILE_COLUMNS ? right - j : LB_TILE_COLUMNS;
            const int32_t high = lb_tile_even(bottom - top, lb_lines_most(columns));
            float own[LB_TILE_COLUMNS];
            const lb_tile_end e = {lb_tile_bias(bias + j, columns, own), p->lo, p->hi};
            l.tile = 0;
            for (int32_t i = top; i < bottom; i += high, l.tile++) {
                const int32_t count = bottom - i < high ? bottom - i : high;
                const float *a[LB_TALL_ROWS];
                for (int32_t r = 0; r < count; r++)
                    a[r] = rows + (i - top + r) * stride;
                lb_lines_f32(count, columns, a, &l, (const float *)w + (ptrdiff_t)j * p->k, &e, out + (ptrdiff_t)i * p->out_stride + j,
                             p->out_stride);
            }
        }
    }
}

#endif
