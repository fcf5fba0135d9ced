/* gru_rows_s8 by vectors of units. Include after rnn_rows_avx2.h or rnn_rows_avx512vnni.h. */
#ifndef LB_GRU_ROWS_S8_LANES_H
#define LB_GRU_ROWS_S8_LANES_H

#include "rnn/gru_lanes.h"

/* What some units of a step need. */
typedef struct {
    const lb_gru_rows_s8_params *p;
    int32_t step;
    int phase;
    const int32_t *sums;
    const float *x, *w_scale, *bias, *r_scale, *r_bias; /* of the direction, and of the row of px */
    const float *before;
    float *y, *h;
    lb_reals x_scale, h_scale;
} lb_gru;

LB_INLINE lb_reals input(const lb_gru *g, const lb_lanes *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return lb_rows_input(e, g->x + at, g->x_scale, g->w_scale + at, g->bias + at);
}

LB_INLINE lb_reals recurrent(const lb_gru *g, const lb_lanes *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return lb_reals_add(
        lb_rows_recurrent(e, g->sums, lb_gru_gates(g->p, g->phase), gate - lb_gru_first(g->p, g->phase), g->h_scale, g->r_scale + at),
        lb_read(e, g->r_bias + at));
}

LB_INLINE lb_reals gate_of(const lb_gru *g, const lb_lanes *e, int gate) {
    return lb_sigmoid_lanes(lb_reals_add(input(g, e, gate), recurrent(g, e, gate)));
}

LB_INLINE void finish(const lb_gru *g, const lb_lanes *e, lb_reals z, lb_reals ph) {
    const lb_reals fresh = lb_tanh_lanes(lb_reals_add(input(g, e, 2), ph));
    const lb_reals taken = lb_reals_mul(lb_reals_sub(lb_reals_all(1.0f), z), fresh);
    const lb_reals next = lb_reals_add(taken, lb_reals_mul(z, lb_read(e, g->before)));
    lb_write(e, g->y, next);
    if (g->step == g->p->time - 1)
        lb_write(e, g->h, next);
}

/* A vector of units. Between phases z stands in row.kept, and r * h after it. */
LB_INLINE void some(const lb_gru *g, const lb_rnn_row *row, const lb_lanes e) {
    float *reset = row->kept + (g->p->hidden + 63) / 64 * 64;
    if (g->p->linear_before_reset)
        finish(g, &e, gate_of(g, &e, 0), lb_reals_mul(gate_of(g, &e, 1), recurrent(g, &e, 2)));
    else if (g->phase == 0) {
        lb_write(&e, row->kept, gate_of(g, &e, 0));
        lb_write(&e, reset, lb_reals_mul(gate_of(g, &e, 1), lb_read(&e, g->before)));
    } else
        finish(g, &e, lb_read(&e, row->kept), recurrent(g, &e, 2));
}

/* The arguments of gru_rows_s8. */
typedef struct {
    const lb_gru_rows_s8_params *p;
    const float *px, *x_scale, *w_scale, *bias;
    const void *r;
    const float *r_scale, *r_bias, *h0;
    float *y, *h;
    void *scratch;
} lb_layer;

LB_INLINE void lb_layer_form(const lb_layer *l, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const float *reset = row->kept + (l->p->hidden + 63) / 64 * 64;
    lb_rnn_quantize(row, phase ? reset : step ? l->y + at.before : l->h0 + at.state, l->p->hidden, lb_gru_gates(l->p, phase));
}

#include "rnn/gru_units.h"

LB_INLINE void lb_layer_units(const lb_layer *l, const lb_units *u, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const ptrdiff_t own = u->direction * 3 * (ptrdiff_t)l->p->hidden;
    const lb_gru g = {LB_GRU_OF_LAYER(l, at, row, own, step, phase), .w_scale = l->w_scale + own,
                      .x_scale = lb_reals_all(l->x_scale[at.row]), .h_scale = lb_reals_all(*row->scale)};
    units(&g, u, row);
}

#include "rnn/rnn_steps.h"

LB_INLINE void lb_gru_rows_s8_lanes(const lb_layer *l, int32_t begin, int32_t end) {
    lb_rnn_steps(l, l->p->linear_before_reset ? 1 : 2, begin, end);
}

#endif
