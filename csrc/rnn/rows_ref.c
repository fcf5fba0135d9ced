#include "rnn/rnn_rows_ref.h"

lb_lstm_rows_s8_fn lb_lstm_rows_s8__ref;

void lb_lstm_rows_s8__ref(const lb_lstm_rows_s8_params *p, const float *px, const float *x_scale, const float *w_scale, const float *bias,
                          const void *r, const float *r_scale, const float *h0, const float *c0, float *y, float *h, float *c,
                          void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 4 * n;
    LB_EACH_MOMENT(p, u, step, at) {
        const float *cell = (step ? c : c0) + at.state;
        const float scale = lb_quantize_row(step ? y + at.before : h0 + at.state, p->hidden, scratch);
        for (int32_t i = u.first; i < u.last; i++) {
            float pre[4];
            for (int gate = 0; gate < 4; gate++) {
                const ptrdiff_t row = (u.direction * 4 + gate) * n + i;
                pre[gate] = (px[at.row * rows + row] * (x_scale[at.row] * w_scale[row]) + bias[row]) +
                            lb_rows_product(scratch, (const int8_t *)r + row * n, p->hidden, scale * r_scale[row]);
            }
            const float next = lb_sigmoid(pre[2]) * cell[i] + lb_sigmoid(pre[0]) * lb_tanh(pre[3]);
            c[at.state + i] = next;
            y[at.y + i] = lb_sigmoid(pre[1]) * lb_tanh(next);
            if (step == p->time - 1)
                h[at.state + i] = y[at.y + i];
        }
    }
}

lb_gru_rows_s8_fn lb_gru_rows_s8__ref;

void lb_gru_rows_s8__ref(const lb_gru_rows_s8_params *p, const float *px, const float *x_scale, const float *w_scale, const float *bias,
                         const void *r, const float *r_scale, const float *r_bias, const float *h0, float *y, float *h, void *scratch,
                         int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 3 * n;
    int8_t *q = scratch; /* the state as integers, and after the floats of r * h theirs */
    float *reset = (float *)scratch + (n + 3) / 4;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        for (int32_t step = p->first; step < p->first + p->steps; step++)
            for (int32_t b = 0; b < p->batch; b++) {
                const lb_moment at = lb_moment_of(p, u.direction, step, b);
                const float *before = step ? y + at.before : h0 + at.state;
                float scale = lb_quantize_row(before, p->hidden, q);
                float *z = y + at.y; /* until the new state takes its place */
                for (int phase = 0; phase < 2; phase++) {
                    if (phase == 1 && !p->linear_before_reset)
                        scale = lb_quantize_row(reset, p->hidden, q);
                    for (int32_t i = u.first; i < u.last; i++) {
                        float pre[3], recurrent[3];
                        for (int gate = phase ? 2 : 0; gate < (phase ? 3 : 2); gate++) {
                            const ptrdiff_t row = (u.direction * 3 + gate) * n + i;
                            pre[gate] = px[at.row * rows + row] * (x_scale[at.row] * w_scale[row]) + bias[row];
                            recurrent[gate] =
                                lb_rows_product(q, (const int8_t *)r + row * n, p->hidden, scale * r_scale[row]) + r_bias[row];
                        }
                        if (phase == 0) {
                            z[i] = lb_sigmoid(pre[0] + recurrent[0]);
                            const float gate = lb_sigmoid(pre[1] + recurrent[1]);
                            reset[i] = p->linear_before_reset ? gate : gate * before[i];
                        } else {
                            const float ph = p->linear_before_reset ? reset[i] * recurrent[2] : recurrent[2];
                            y[at.y + i] = (1.0f - z[i]) * lb_tanh(pre[2] + ph) + z[i] * before[i];
                            if (step == p->time - 1)
                                h[at.state + i] = y[at.y + i];
                        }
                    }
                }
            }
    }
}
