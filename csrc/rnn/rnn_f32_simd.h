/* What a recurrent layer of floats does besides its gates. The words of vectors (f32_avx2.h or another) stand before this. */
#ifndef LB_RNN_F32_SIMD_H
#define LB_RNN_F32_SIMD_H

#include "rnn/rnn_f32.h"
#include "base/rows_f32.h"
#include "gemm/microkernel_f32.h"

/* out = rows of a (any number, by their pointers) times packed weights, plus bias. */
static inline void lb_rnn_times(const float *const *a, int32_t rows, int32_t k, const float *w, const float *bias, int32_t n, float *out) {
    for (int32_t j = 0; j < n; j += LB_TILE_COLUMNS) {
        const lb_tile_end e = {bias + j, -LB_INFINITY, LB_INFINITY};
        lb_tile_f32(rows, n - j < LB_TILE_COLUMNS ? n - j : LB_TILE_COLUMNS, a, 1, k, w + (ptrdiff_t)j * k, lb_panels_of(k, LB_LATER), &e,
                    out + j, n);
    }
}

/* z[step][row] = w x + bias for the steps from `start` on: `steps` of them. */
static inline void lb_rnn_inputs(const lb_lstm_f32_params *p, lb_rnn_item b, int32_t start, int32_t steps, const float *x, const float *w,
                                 const float *bias, int32_t n, float *z) {
    for (int32_t j = 0; j < n; j += LB_TILE_COLUMNS) {
        const lb_tile_end e = {bias + j, -LB_INFINITY, LB_INFINITY};
        for (int32_t i = 0; i < steps * b.rows; i += LB_TILE_ROWS) {
            const int32_t rows = steps * b.rows - i < LB_TILE_ROWS ? steps * b.rows - i : LB_TILE_ROWS;
            const float *a[LB_TILE_ROWS];
            for (int32_t t = 0; t < LB_TILE_ROWS; t++) {
                const int32_t at = i + (t < rows ? t : 0);
                a[t] = lb_rnn_input(p, b, start + at / b.rows, at % b.rows, x);
            }
            lb_tile_f32(rows, n - j < LB_TILE_COLUMNS ? n - j : LB_TILE_COLUMNS, a, 1, p->inputs, w + (ptrdiff_t)j * p->inputs,
                        lb_panels_of(p->inputs, LB_LATER), &e, z + (ptrdiff_t)i * n + j, n);
        }
    }
}

/* Up to LB_LANES of n floats; zeros after the last. */
static inline lb_v lb_up_to(const float *from, int32_t n) {
    return n >= LB_LANES ? lb_v_load(from) : lb_v_get(from, n, 0.0f);
}

static inline void lb_put_up_to(float *to, lb_v v, int32_t n) {
    if (n >= LB_LANES)
        lb_v_store(to, v);
    else
        lb_v_put(to, v, n);
}

static inline int64_t lb_rnn_packed(int32_t n, int32_t k) {
    return (int64_t)(n + LB_PANEL - 1) / LB_PANEL * LB_PANEL * k;
}

#endif
