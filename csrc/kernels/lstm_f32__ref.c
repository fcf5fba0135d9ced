#include "lb_rnn_f32.h"

#include <string.h>

lb_lstm_f32_fn lb_lstm_f32__ref;

static float dot(const float *a, const float *b, int32_t n) {
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

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
