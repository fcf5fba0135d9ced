/* lstm_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_LSTM_F32_SIMD_H
#define LB_LSTM_F32_SIMD_H

#include "rnn/rnn_f32_simd.h"

void LB_SIMD(lstm_f32)(const lb_lstm_f32_params *p, const float *x, const void *w, const void *r, const float *bias, const float *h0,
                       const float *c0, float *y, float *hn, float *cn, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->hidden;
    static const float none[LB_TILE_COLUMNS];
    float *z = scratch, *u = z + (ptrdiff_t)LB_RNN_ROWS * 4 * n * p->chunk, *h = u + LB_RNN_ROWS * 4 * n, *c = h + LB_RNN_ROWS * n;
    for (int32_t item = begin; item < end; item++) {
        const lb_rnn_item b = lb_rnn_at(p, item);
        const float *wd = (const float *)w + b.direction * lb_rnn_packed(4 * n, p->inputs);
        const float *rd = (const float *)r + b.direction * lb_rnn_packed(4 * n, n), *state[LB_RNN_ROWS];
        for (int32_t row = 0; row < LB_RNN_ROWS; row++)
            state[row] = h + (row < b.rows ? row : 0) * n;
        for (int32_t row = 0; row < b.rows; row++) {
            memcpy(h + row * n, h0 + lb_rnn_state(p, b, row), sizeof *h * (size_t)n);
            memcpy(c + row * n, c0 + lb_rnn_state(p, b, row), sizeof *c * (size_t)n);
        }
        for (int32_t start = 0; start < p->time; start += p->chunk) {
            const int32_t steps = p->time - start < p->chunk ? p->time - start : p->chunk;
            lb_rnn_inputs(p, b, start, steps, x, wd, bias + (ptrdiff_t)b.direction * 4 * n, 4 * n, z);
            for (int32_t s = 0; s < steps; s++) {
                for (int32_t j = 0; j < 4 * n; j += LB_TILE_COLUMNS) {
                    const lb_tile_end e = {none, -LB_INFINITY, LB_INFINITY};
                    lb_tile_f32(b.rows, 4 * n - j < LB_TILE_COLUMNS ? 4 * n - j : LB_TILE_COLUMNS, state, 1, n, rd + (ptrdiff_t)j * n,
                                lb_panels_of(n, LB_LATER), &e, u + j, 4 * n);
                }
                for (int32_t row = 0; row < b.rows; row++) {
                    const float *zi = z + (ptrdiff_t)(s * b.rows + row) * 4 * n, *ui = u + row * 4 * n;
                    float *to = lb_rnn_output(p, b, start + s, row, y);
                    for (int32_t i = 0; i < n; i += LB_LANES) {
                        lb_v g[4];
#pragma GCC unroll 4
                        for (int q = 0; q < 4; q++)
                            g[q] = lb_v_add(lb_up_to(zi + q * n + i, n - i), lb_up_to(ui + q * n + i, n - i));
                        const lb_v old = lb_up_to(c + row * n + i, n - i);
                        const lb_v cell = lb_v_fma(LB_V(sigmoid)(g[2]), old, lb_v_mul(LB_V(sigmoid)(g[0]), LB_V(tanh)(g[3])));
                        const lb_v now = lb_v_mul(LB_V(sigmoid)(g[1]), LB_V(tanh)(cell));
                        lb_put_up_to(c + row * n + i, cell, n - i);
                        lb_put_up_to(h + row * n + i, now, n - i);
                        lb_put_up_to(to + i, now, n - i);
                    }
                }
            }
        }
        for (int32_t row = 0; row < b.rows; row++) {
            memcpy(hn + lb_rnn_state(p, b, row), h + row * n, sizeof *h * (size_t)n);
            memcpy(cn + lb_rnn_state(p, b, row), c + row * n, sizeof *c * (size_t)n);
        }
    }
}

#endif
