#include "rnn/rnn_f32.h"

#include <string.h>

static inline float dot(const float *a, const float *b, int32_t n) {
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

lb_lstm_f32_fn lb_lstm_f32__ref;

void lb_lstm_f32__ref(const lb_lstm_f32_params *p, const float *x, const void *w, const void *r, const float *bias, const float *h0,
                      const float *c0, float *y, float *hn, float *cn, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->hidden;
    float *z = scratch, *h = z + 4 * n, *c = h + n;
    for (int32_t item = begin; item < end; item++) {
        const lb_rnn_item b = lb_rnn_at(p, item);
        const float *wd = (const float *)w + (ptrdiff_t)b.direction * 4 * n * p->inputs;
        const float *rd = (const float *)r + (ptrdiff_t)b.direction * 4 * n * n;
        for (int32_t row = 0; row < b.rows; row++) {
            const ptrdiff_t state = lb_rnn_state(p, b, row);
            memcpy(h, h0 + state, sizeof *h * (size_t)n), memcpy(c, c0 + state, sizeof *c * (size_t)n);
            for (int32_t s = 0; s < p->time; s++) {
                const float *in = lb_rnn_input(p, b, s, row, x);
                for (int32_t i = 0; i < 4 * n; i++)
                    z[i] = dot(in, wd + (ptrdiff_t)i * p->inputs, p->inputs) + bias[(ptrdiff_t)b.direction * 4 * n + i] +
                           dot(h, rd + (ptrdiff_t)i * n, n);
                for (int32_t i = 0; i < n; i++) {
                    c[i] = lb_sigmoidf(z[2 * n + i]) * c[i] + lb_sigmoidf(z[i]) * lb_tanhf(z[3 * n + i]);
                    h[i] = lb_sigmoidf(z[n + i]) * lb_tanhf(c[i]);
                }
                memcpy(lb_rnn_output(p, b, s, row, y), h, sizeof *h * (size_t)n);
            }
            memcpy(hn + state, h, sizeof *h * (size_t)n), memcpy(cn + state, c, sizeof *c * (size_t)n);
        }
    }
}

lb_gru_f32_fn lb_gru_f32__ref;

void lb_gru_f32__ref(const lb_gru_f32_params *p, const float *x, const void *w, const void *r, const float *bias, const float *h0, float *y,
                     float *hn, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->hidden;
    float *z = scratch, *u = z + 3 * n, *h = u + 3 * n, *reset = h + n;
    for (int32_t item = begin; item < end; item++) {
        const lb_rnn_item b = lb_rnn_at(p, item);
        const float *wd = (const float *)w + (ptrdiff_t)b.direction * 3 * n * p->inputs, *bd = bias + (ptrdiff_t)b.direction * 6 * n;
        const float *rd = (const float *)r + (ptrdiff_t)b.direction * 3 * n * n;
        for (int32_t row = 0; row < b.rows; row++) {
            const ptrdiff_t state = lb_rnn_state(p, b, row);
            memcpy(h, h0 + state, sizeof *h * (size_t)n);
            for (int32_t s = 0; s < p->time; s++) {
                const float *in = lb_rnn_input(p, b, s, row, x);
                for (int32_t i = 0; i < 3 * n; i++) {
                    z[i] = dot(in, wd + (ptrdiff_t)i * p->inputs, p->inputs) + bd[i];
                    u[i] = dot(h, rd + (ptrdiff_t)i * n, n) + bd[3 * n + i];
                }
                for (int32_t i = 0; i < 2 * n; i++)
                    z[i] = lb_sigmoidf(z[i] + u[i]);
                for (int32_t i = 0; i < n; i++)
                    reset[i] = z[n + i] * h[i];
                for (int32_t i = 0; i < n; i++) {
                    const float all = dot(reset, rd + (ptrdiff_t)(2 * n + i) * n, n) + bd[5 * n + i];
                    z[2 * n + i] = lb_tanhf(z[2 * n + i] + (p->linear_before_reset ? z[n + i] * u[2 * n + i] : all));
                }
                for (int32_t i = 0; i < n; i++)
                    h[i] = (1.0f - z[i]) * z[2 * n + i] + z[i] * h[i];
                memcpy(lb_rnn_output(p, b, s, row, y), h, sizeof *h * (size_t)n);
            }
            memcpy(hn + state, h, sizeof *h * (size_t)n);
        }
    }
}
