/* gru_s8 and gru_s16: lb_hidden is the type of the state, lb_weight of the weights, lb_sum of their sums. */
#include "rnn/rnn_sums.h"

typedef struct {
    const lb_lstm_s8_params *p;
    lb_rnn_input in;
    const lb_f32 *bias, *r_scale, *r_bias;
    const lb_weight *r;
    int32_t direction;
} lb_gru;

/* The product of the input of row `row` for a gate of unit i. */
static inline lb_f32 lb_gru_input(const lb_gru *g, ptrdiff_t row, int gate, int32_t i) {
    const ptrdiff_t n = g->p->hidden, at = (g->direction * 3 + gate) * n + i;
    return lb_f32_add(lb_input_gate(&g->in, g->p, row, g->p->directions * 3 * n, at), g->bias[at]);
}

static inline lb_f32 lb_gru_recurrent(const lb_gru *g, const lb_hidden *h, int gate, int32_t i) {
    const ptrdiff_t n = g->p->hidden, at = (g->direction * 3 + gate) * n + i;
    const lb_sum sum = lb_recurrent(h, g->r + at * n, g->p->hidden, g->p->h_zero);
    return lb_f32_add(lb_f32_mul(LB_SUM_F32(sum), g->r_scale[at]), g->r_bias[at]);
}

static inline int32_t lb_gru_gate(const lb_gru *g, ptrdiff_t row, const lb_hidden *h, int gate, int32_t i, const int16_t *table) {
    return lb_sigmoid_gate(lb_f32_add(lb_gru_input(g, row, gate, i), lb_gru_recurrent(g, h, gate, i)), table);
}

/* scratch: r * h of one row, 16 bits an element. */
static inline void lb_gru_ref(const lb_lstm_s8_params *p, lb_rnn_input in, const lb_f32 *bias, const lb_weight *r, const lb_f32 *r_scale,
                              const lb_f32 *r_bias, const int16_t *table, const lb_hidden *h0, lb_hidden *y, lb_hidden *h, int16_t *s,
                              void *scratch, int32_t begin, int32_t end) {
    lb_hidden *reset = scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        const lb_gru g = {p, in, bias, r_scale, r_bias, r, u.direction};
        for (int32_t step = p->first; step < p->first + p->steps; step++)
            for (int32_t b = 0; b < p->batch; b++) {
                const lb_moment at = lb_moment_of(p, u.direction, step, b);
                const lb_hidden *before = step ? y + at.before : h0 + at.state;
                int16_t *state = s + at.state;
                for (int32_t i = u.first; i < u.last; i++) {
                    if (step == 0 && !p->state_given)
                        state[i] = (int16_t)lb_round_clamp(lb_f32_mul(lb_f32_from_s32(before[i] - p->h_zero), p->state_multiplier), 0,
                                                           -32768, 32767);
                    if (!p->linear_before_reset) {
                        const int32_t product = lb_gru_gate(&g, at.row, before, 1, i, table) * state[i];
                        reset[i] =
                            (lb_hidden)lb_round_clamp(lb_f32_mul(lb_f32_from_s32(product), p->reset_multiplier), p->h_zero, p->lo, p->hi);
                    }
                }
                for (int32_t i = u.first; i < u.last; i++) {
                    const int32_t z = lb_gru_gate(&g, at.row, before, 0, i, table);
                    lb_f32 ph;
                    if (p->linear_before_reset)
                        ph = lb_f32_mul(lb_f32_mul(lb_f32_from_s32(lb_gru_gate(&g, at.row, before, 1, i, table)),
                                                   lb_f32_of_bits(0x38000000u)), /* 2^-15 */
                                        lb_gru_recurrent(&g, before, 2, i));
                    else
                        ph = lb_gru_recurrent(&g, reset, 2, i);
                    const int32_t fresh = lb_tanh_gate(lb_f32_add(lb_gru_input(&g, at.row, 2, i), ph), table);
                    const int32_t next = lb_mix(z, state[i], 32768 - z, fresh, p->state_bits);
                    state[i] = (int16_t)next;
                    y[at.y + i] = (lb_hidden)lb_round_clamp(lb_f32_mul(lb_f32_from_s32(next), p->h_multiplier), p->h_zero, p->lo, p->hi);
                    if (step == p->time - 1)
                        h[at.state + i] = y[at.y + i];
                }
            }
    }
}

/* The kernels of bytes for an instruction set: with what the inputs add made before, and with the inputs themselves. */
#define LB_GRU_S8_KERNEL(isa)                                                                                                              \
    void lb_gru_s8__##isa(const lb_gru_s8_params *p, const lb_f32 *px, const lb_f32 *bias, const void *r, const lb_f32 *r_scale,           \
                          const lb_f32 *r_bias, const int16_t *table, const int8_t *h0, int8_t *y, int8_t *h, int16_t *s, void *scratch,   \
                          int32_t begin, int32_t end) {                                                                                    \
        lb_gru_ref(p, (lb_rnn_input){.px = px}, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch, begin, end);                        \
    }
#define LB_GRU_X_S8_KERNEL(isa)                                                                                                            \
    void lb_gru_x_s8__##isa(const lb_gru_x_s8_params *p, const int8_t *x, const int8_t *w, const lb_f32 *w_scale, const lb_f32 *bias,      \
                            const int8_t *r, const lb_f32 *r_scale, const lb_f32 *r_bias, const int16_t *table, const int8_t *h0,          \
                            int8_t *y, int8_t *h, int16_t *s, void *scratch, int32_t begin, int32_t end) {                                 \
        lb_gru_ref(p, (lb_rnn_input){.x = x, .w = w, .w_scale = w_scale}, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch, begin,    \
                   end);                                                                                                                   \
    }
