/* lstm_rows_s8 by vectors of units. Behind rnn_rows_avx2.h or rnn_rows_avx512vnni.h. */
#ifndef LB_LSTM_ROWS_S8_LANES_H
#define LB_LSTM_ROWS_S8_LANES_H

/* What the units of a step need: the row of px, and parameters of the direction. */
typedef struct {
    const float *x, *w_scale, *bias, *r_scale, *cell;
    lb_reals x_scale, h_scale;
    const int32_t *sums;
    float *y, *h, *c; /* h is NULL before the last step */
    ptrdiff_t n;
} lb_lstm;

LB_INLINE void gates(const lb_lstm *s, const lb_lanes e) {
    const ptrdiff_t n = s->n;
    lb_reals pre[4];
    for (int g = 0; g < 4; g++)
        pre[g] = lb_reals_add(lb_rows_input(&e, s->x + g * n, s->x_scale, s->w_scale + g * n, s->bias + g * n),
                              lb_rows_recurrent(&e, s->sums, 4, g, s->h_scale, s->r_scale + g * n));
    const lb_reals kept = lb_reals_mul(lb_sigmoid_lanes(pre[2]), lb_read(&e, s->cell));
    const lb_reals next = lb_reals_add(kept, lb_reals_mul(lb_sigmoid_lanes(pre[0]), lb_tanh_lanes(pre[3])));
    const lb_reals state = lb_reals_mul(lb_sigmoid_lanes(pre[1]), lb_tanh_lanes(next));
    lb_write(&e, s->c, next);
    lb_write(&e, s->y, state);
    if (s->h)
        lb_write(&e, s->h, state);
}

/* The arguments of lstm_rows_s8. */
typedef struct {
    const lb_lstm_rows_s8_params *p;
    const float *px, *x_scale, *w_scale, *bias;
    const void *r;
    const float *r_scale, *h0, *c0;
    float *y, *h, *c;
    void *scratch;
} lb_layer;

LB_INLINE void lb_layer_form(const lb_layer *l, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    (void)phase;
    lb_rnn_quantize(row, step ? l->y + at.before : l->h0 + at.state, l->p->hidden, 4);
}

LB_INLINE void lb_layer_products(const lb_layer *l, const lb_units *u, int32_t step, int phase) {
    (void)phase;
    lb_rnn_products(4, l->p, (const char *)l->r + u->direction * lb_weight_bytes(l->p->hidden, 4), u, step, l->scratch);
}

LB_INLINE void lb_layer_units(const lb_layer *l, const lb_units *u, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const ptrdiff_t n = l->p->hidden, own = u->direction * 4 * n;
    const lb_lstm s = {l->px + at.row * l->p->directions * 4 * n + own,
                       l->w_scale + own,
                       l->bias + own,
                       l->r_scale + own,
                       (step ? l->c : l->c0) + at.state,
                       lb_reals_all(l->x_scale[at.row]),
                       lb_reals_all(*row->scale),
                       row->sums,
                       l->y + at.y,
                       step == l->p->time - 1 ? l->h + at.state : NULL,
                       l->c + at.state,
                       n};
    (void)phase;
    int32_t j = u->first;
    for (; j + LB_UNITS <= u->last; j += LB_UNITS)
        gates(&s, lb_all_lanes(j));
    if (j < u->last)
        gates(&s, lb_lanes_at(j, l->p->hidden));
}

#include "rnn/rnn_steps.h"

#endif
