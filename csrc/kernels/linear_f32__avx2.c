#include "lb.h"
#include "lb_float.h"
#include "lb_lines_f32_avx2.h"

lb_linear_f32_fn lb_linear_f32__avx2;

enum { ALIAS = 512, APART = 16, CHAINS = 4 }; /* rows a multiple of 2 KiB apart share few lines of the cache: they are copied apart */

/* One row in all: the weights are read once, and the sum is made in four parts, since nothing else fills the pipeline. */
static void single_row(const lb_linear_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t left,
                       int32_t right) {
    const __m256 lo = _mm256_set1_ps(p->lo), hi = _mm256_set1_ps(p->hi);
    for (int32_t j = left; j < right; j += LB_TILE_COLUMNS) {
        const float *b = w + (ptrdiff_t)j * p->k;
        __m256 s[CHAINS][2];
        for (int i = 0; i < CHAINS; i++)
            s[i][0] = s[i][1] = _mm256_setzero_ps();
        int32_t k = 0;
        for (; k <= p->k - CHAINS; k += CHAINS, b += CHAINS * LB_TILE_COLUMNS) {
            const uintptr_t soon = (uintptr_t)b + 64 * LB_TILE_COLUMNS; /* a number: behind the weights no pointer may lead */
            _mm_prefetch((const char *)soon, _MM_HINT_T0);
            _mm_prefetch((const char *)(soon + 64), _MM_HINT_T0);
            _mm_prefetch((const char *)(soon + 128), _MM_HINT_T0);
            _mm_prefetch((const char *)(soon + 192), _MM_HINT_T0);
#pragma GCC unroll 4
            for (int i = 0; i < CHAINS; i++) {
                const __m256 v = _mm256_broadcast_ss(x + k + i);
                s[i][0] = _mm256_fmadd_ps(v, _mm256_loadu_ps(b + i * LB_TILE_COLUMNS), s[i][0]);
                s[i][1] = _mm256_fmadd_ps(v, _mm256_loadu_ps(b + i * LB_TILE_COLUMNS + 8), s[i][1]);
            }
        }
        for (; k < p->k; k++, b += LB_TILE_COLUMNS) {
            const __m256 v = _mm256_broadcast_ss(x + k);
            s[0][0] = _mm256_fmadd_ps(v, _mm256_loadu_ps(b), s[0][0]);
            s[0][1] = _mm256_fmadd_ps(v, _mm256_loadu_ps(b + 8), s[0][1]);
        }
        const __m256 s0 = _mm256_add_ps(_mm256_add_ps(s[0][0], s[1][0]), _mm256_add_ps(s[2][0], s[3][0]));
        const __m256 s1 = _mm256_add_ps(_mm256_add_ps(s[0][1], s[1][1]), _mm256_add_ps(s[2][1], s[3][1]));
        if (right - j >= LB_TILE_COLUMNS) {
            _mm256_storeu_ps(out + j, lb_clamp_ps(_mm256_add_ps(s0, _mm256_loadu_ps(bias + j)), lo, hi));
            _mm256_storeu_ps(out + j + 8, lb_clamp_ps(_mm256_add_ps(s1, _mm256_loadu_ps(bias + j + 8)), lo, hi));
        } else {
            float last[LB_TILE_COLUMNS];
            _mm256_storeu_ps(last, s0);
            _mm256_storeu_ps(last + 8, s1);
            for (int32_t i = 0; i < right - j; i++)
                out[j + i] = lb_clampf(last[i] + bias[j + i], p->lo, p->hi);
        }
    }
}

void lb_linear_f32__avx2(const lb_linear_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                         int32_t begin, int32_t end) {
    const int32_t across = (p->n + p->block_columns - 1) / p->block_columns;
    const int apart = p->k && p->k % ALIAS == 0 && p->rows > 1;
    const ptrdiff_t stride = apart ? p->k + APART : p->k;
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
            const int32_t columns = right - j < LB_TILE_COLUMNS ? right - j : LB_TILE_COLUMNS, most = lb_lines_most(columns);
            float own[LB_TILE_COLUMNS];
            const lb_tile_end e = {lb_tile_bias(bias + j, columns, own), p->lo, p->hi};
            const lb_lines l = {1, p->k, 0};
            for (int32_t i = top; i < bottom; i += most) {
                const int32_t count = bottom - i < most ? bottom - i : most;
                const float *a[LB_LINES_ROWS];
                for (int32_t r = 0; r < count; r++)
                    a[r] = rows + (i - top + r) * stride;
                lb_lines_f32(count, columns, a, &l, (const float *)w + (ptrdiff_t)j * p->k, &e, out + (ptrdiff_t)i * p->out_stride + j,
                             p->out_stride);
            }
        }
    }
}
