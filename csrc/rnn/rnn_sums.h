/* Products of lstm_ref.h and gru_ref.h: those of states, element by element, and those of inputs, which are given or made likewise.
 * An instruction set that has its own sums defines LB_OWN_SUMS. */
#ifndef LB_RNN_SUMS_H
#define LB_RNN_SUMS_H

#include "rnn/rnn_shared.h"

#ifndef LB_OWN_SUMS

/* The sum of (h - h_zero) * r over k units. */
static inline lb_sum lb_recurrent(const lb_hidden *h, const lb_weight *r, int32_t k, int32_t h_zero) {
    lb_sum sum = 0;
    for (int32_t i = 0; i < k; i++)
        sum += (lb_sum)(h[i] - h_zero) * r[i];
    return sum;
}

/* The same for four gates, whose weights are `step` apart. */
static inline void lb_four_gates(lb_sum sums[4], const lb_hidden *h, const lb_weight *r, ptrdiff_t step, int32_t k, int32_t h_zero) {
    for (int gate = 0; gate < 4; gate++)
        sums[gate] = lb_recurrent(h, r + gate * step, k, h_zero);
}

#endif

/* Inputs: px, or where it is NULL what it is made of. */
typedef struct {
    const lb_f32 *px;
    const lb_hidden *x;
    const lb_weight *w;
    const lb_f32 *w_scale;
} lb_rnn_input;

/* px of one row, for row `at` of the weights. */
static inline lb_f32 lb_input_gate(const lb_rnn_input *in, const lb_lstm_s8_params *p, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t at) {
    if (in->px != NULL)
        return in->px[row * rows + at];
    const lb_sum sum = lb_recurrent(in->x + row * p->inputs, in->w + at * p->inputs, p->inputs, p->x_zero);
    return lb_f32_mul(LB_SUM_F32(sum), in->w_scale[at]);
}

/* The same for four gates, whose rows are `hidden` apart. */
static inline void lb_four_inputs(lb_f32 pre[4], const lb_rnn_input *in, const lb_lstm_s8_params *p, ptrdiff_t row, ptrdiff_t rows,
                                  ptrdiff_t at) {
    lb_sum sums[4] = {0};
    if (in->px == NULL)
        lb_four_gates(sums, in->x + row * p->inputs, in->w + at * p->inputs, (ptrdiff_t)p->hidden * p->inputs, p->inputs, p->x_zero);
    for (ptrdiff_t gate = 0; gate < 4; gate++, at += p->hidden)
        pre[gate] = in->px != NULL ? in->px[row * rows + at] : lb_f32_mul(LB_SUM_F32(sums[gate]), in->w_scale[at]);
}

#endif
