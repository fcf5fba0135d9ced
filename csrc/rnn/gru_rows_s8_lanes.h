/* gru_rows_s8 by vectors of units. Behind rnn_rows_avx2.h or rnn_rows_avx512vnni.h. */
#ifndef LB_GRU_ROWS_S8_LANES_H
#define LB_GRU_ROWS_S8_LANES_H

#include "rnn/gru_lanes.h"

/* What some units of a step need. */
typedef struct {
    const lb_gru_rows_s8_params *p;
    const float *x, *w_scale, *bias, *r_scale, *r_bias; /* of the direction, and of the row of px */
    const float *before;
    float *y, *h;
    lb_reals x_scale, h_scale;
    const int32_t *sums;
    int32_t step;
    int phase;
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

/* A vector of units. Between phases z stands in row.kept, and r * h behind it. */
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

static void units(const lb_gru *g, const lb_units *u, const lb_rnn_row *row) {
    int32_t j = u->first;
    for (; j + LB_UNITS <= u->last; j += LB_UNITS)
        some(g, row, lb_all_lanes(j));
    if (j < u->last)
        some(g, row, lb_lanes_at(j, g->p->hidden));
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

LB_INLINE void lb_layer_products(const lb_layer *l, const lb_units *u, int32_t step, int phase) {
    lb_gru_products(l->p, l->r, u, step, phase, l->scratch);
}

LB_INLINE void lb_layer_units(const lb_layer *l, const lb_units *u, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const ptrdiff_t gates = 3 * (ptrdiff_t)l->p->hidden, own = u->direction * gates;
    const lb_gru g = {.x = l->px + at.row * l->p->directions * gates + own,
                      .x_scale = lb_reals_all(l->x_scale[at.row]),
                      .w_scale = l->w_scale + own,
                      .bias = l->bias + own,
                      .before = step ? l->y + at.before : l->h0 + at.state,
                      .r_scale = l->r_scale + own,
                      .r_bias = l->r_bias + own,
                      .h_scale = lb_reals_all(*row->scale),
                      .sums = row->sums,
                      .y = l->y + at.y,
                      .h = l->h + at.state,
                      .p = l->p,
                      .step = step,
                      .phase = phase};
    units(&g, u, row);
}

#include "rnn/rnn_steps.h"

LB_INLINE void lb_gru_rows_s8_lanes(const lb_layer *l, int32_t begin, int32_t end) {
    lb_rnn_steps(l, l->p->linear_before_reset ? 1 : 2, begin, end);
}

#endif
