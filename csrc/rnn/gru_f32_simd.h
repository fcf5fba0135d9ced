/* gru_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_GRU_F32_SIMD_H
#define LB_GRU_F32_SIMD_H

#include "rnn/rnn_f32_simd.h"

void LB_SIMD(gru_f32)(const lb_gru_f32_params *p, const float *x, const void *w, const void *r, const float *bias, const float *h0,
                      float *y, float *hn, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->hidden;
    float *z = scratch, *u = z + (ptrdiff_t)LB_RNN_ROWS * 3 * n * p->chunk, *h = u + LB_RNN_ROWS * 3 * n, *reset = h + LB_RNN_ROWS * n;
    for (int32_t item = begin; item < end; item++) {
        const lb_rnn_item b = lb_rnn_at(p, item);
        const float *wd = (const float *)w + b.direction * lb_rnn_packed(3 * n, p->inputs), *bd = bias + (ptrdiff_t)b.direction * 6 * n;
        const float *rd = (const float *)r + b.direction * lb_rnn_packed(3 * n, n), *state[LB_RNN_ROWS], *kept[LB_RNN_ROWS];
        for (int32_t row = 0; row < LB_RNN_ROWS; row++) {
            state[row] = h + (row < b.rows ? row : 0) * n;
            kept[row] = reset + (row < b.rows ? row : 0) * n;
        }
        for (int32_t row = 0; row < b.rows; row++)
            memcpy(h + row * n, h0 + lb_rnn_state(p, b, row), sizeof *h * (size_t)n);
        for (int32_t start = 0; start < p->time; start += p->chunk) {
            const int32_t steps = p->time - start < p->chunk ? p->time - start : p->chunk;
            lb_rnn_inputs(p, b, start, steps, x, wd, bd, 3 * n, z);
            for (int32_t s = 0; s < steps; s++) {
                lb_rnn_times(state, b.rows, n, rd, bd + 3 * n, 3 * n, u);
                for (int32_t row = 0; row < b.rows; row++) {
                    float *zi = z + (ptrdiff_t)(s * b.rows + row) * 3 * n;
                    const float *ui = u + row * 3 * n;
                    for (int32_t i = 0; i < 2 * n; i += LB_LANES)
                        lb_put_up_to(zi + i, LB_V(sigmoid)(lb_v_add(lb_up_to(zi + i, 2 * n - i), lb_up_to(ui + i, 2 * n - i))), 2 * n - i);
                    for (int32_t i = 0; i < n; i++)
                        reset[row * n + i] = zi[n + i] * h[row * n + i];
                }
                if (!p->linear_before_reset) /* all gates again: the last one is what is wanted */
                    lb_rnn_times(kept, b.rows, n, rd, bd + 3 * n, 3 * n, u);
                for (int32_t row = 0; row < b.rows; row++) {
                    const float *zi = z + (ptrdiff_t)(s * b.rows + row) * 3 * n, *ui = u + row * 3 * n;
                    float *to = lb_rnn_output(p, b, start + s, row, y);
                    for (int32_t i = 0; i < n; i += LB_LANES) {
                        lb_v back = lb_up_to(ui + 2 * n + i, n - i);
                        if (p->linear_before_reset)
                            back = lb_v_mul(back, lb_up_to(zi + n + i, n - i));
                        const lb_v new = LB_V(tanh)(lb_v_add(lb_up_to(zi + 2 * n + i, n - i), back)),
                                   old = lb_up_to(h + row * n + i, n - i);
                        const lb_v keep = lb_up_to(zi + i, n - i);
                        const lb_v now = lb_v_fma(lb_v_sub(lb_v_all(1.0f), keep), new, lb_v_mul(keep, old));
                        lb_put_up_to(h + row * n + i, now, n - i);
                        lb_put_up_to(to + i, now, n - i);
                    }
                }
            }
        }
        for (int32_t row = 0; row < b.rows; row++)
            memcpy(hn + lb_rnn_state(p, b, row), h + row * n, sizeof *h * (size_t)n);
    }
}

#endif
