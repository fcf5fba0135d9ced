/* lstm_s8 and lstm_s16: lb_hidden is the type of the state, lb_weight of the weights, lb_sum of their sums. */
#include "rnn/rnn_sums.h"

static inline void lb_lstm_ref(const lb_lstm_s8_params *p, lb_rnn_input in, const lb_f32 *bias, const lb_weight *r, const lb_f32 *r_scale,
                               const int16_t *table, const lb_hidden *h0, const lb_f32 *c0, lb_hidden *y, lb_hidden *h, lb_f32 *c,
                               int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 4 * n;
    LB_EACH_MOMENT(p, u, step, at) {
        const lb_hidden *before = step ? y + at.before : h0 + at.state;
        const lb_f32 *cell = (step ? c : c0) + at.state;
        for (int32_t i = u.first; i < u.last; i++) {
            lb_f32 pre[4];
            lb_sum sums[4];
            lb_four_inputs(pre, &in, p, at.row, rows, u.direction * 4 * n + i);
            lb_four_gates(sums, before, r + (u.direction * 4 * n + i) * n, n * n, p->hidden, p->h_zero);
            for (int gate = 0; gate < 4; gate++) {
                const ptrdiff_t row = (u.direction * 4 + gate) * n + i;
                const lb_f32 scaled = lb_f32_mul(LB_SUM_F32(sums[gate]), r_scale[row]);
                pre[gate] = lb_f32_add(lb_f32_add(pre[gate], bias[row]), scaled);
            }
            const lb_f32 taken = lb_f32_mul(lb_sigmoid_real(pre[0], table), lb_tanh_real(pre[3], table));
            const lb_f32 next = lb_f32_add(lb_f32_mul(lb_sigmoid_real(pre[2], table), cell[i]), taken);
            const lb_f32 out = lb_f32_mul(lb_sigmoid_real(pre[1], table), lb_tanh_real(next, table));
            c[at.state + i] = next;
            y[at.y + i] = (lb_hidden)lb_round_clamp(lb_f32_mul(out, p->h_multiplier), p->h_zero, p->lo, p->hi);
            if (step == p->time - 1)
                h[at.state + i] = y[at.y + i];
        }
    }
}

/* The kernels of bytes for an instruction set: with what the inputs add made before, and with the inputs themselves. */
#define LB_LSTM_S8_KERNEL(isa)                                                                                                             \
    void lb_lstm_s8__##isa(const lb_lstm_s8_params *p, const lb_f32 *px, const lb_f32 *bias, const void *r, const lb_f32 *r_scale,         \
                           const int16_t *table, const int8_t *h0, const lb_f32 *c0, int8_t *y, int8_t *h, lb_f32 *c, void *scratch,       \
                           int32_t begin, int32_t end) {                                                                                   \
        (void)scratch;                                                                                                                     \
        lb_lstm_ref(p, (lb_rnn_input){.px = px}, bias, r, r_scale, table, h0, c0, y, h, c, begin, end);                                    \
    }
#define LB_LSTM_X_S8_KERNEL(isa)                                                                                                           \
    void lb_lstm_x_s8__##isa(const lb_lstm_x_s8_params *p, const int8_t *x, const int8_t *w, const lb_f32 *w_scale, const lb_f32 *bias,    \
                             const int8_t *r, const lb_f32 *r_scale, const int16_t *table, const int8_t *h0, const lb_f32 *c0, int8_t *y,  \
                             int8_t *h, lb_f32 *c, void *scratch, int32_t begin, int32_t end) {                                            \
        (void)scratch;                                                                                                                     \
        lb_lstm_ref(p, (lb_rnn_input){.x = x, .w = w, .w_scale = w_scale}, bias, r, r_scale, table, h0, c0, y, h, c, begin, end);          \
    }
