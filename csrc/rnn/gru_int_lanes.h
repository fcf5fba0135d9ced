/* gru_s8 and gru_s16 by vectors of units. Behind rnn_s8.h or lb_rnn_s16_*.h. */
#ifndef LB_GRU_INT_LANES_H
#define LB_GRU_INT_LANES_H

#include "rnn/gru_lanes.h"

/* What some units of a step need. */
typedef struct {
    const lb_gru_s8_params *p;
    const float *x, *bias, *r_scale, *r_bias; /* of the direction, and of the row of px */
    const int16_t *table;
    const lb_hidden *before;
    lb_hidden *y, *h;
    int16_t *s;
    const int32_t *sums;
    int32_t step;
    int phase;
} lb_gru;

LB_INLINE lb_reals input(const lb_gru *g, const lb_lanes *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return lb_reals_add(lb_read(e, g->x + at), lb_read(e, g->bias + at));
}

LB_INLINE lb_reals recurrent(const lb_gru *g, const lb_lanes *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return lb_reals_add(
        lb_scaled(e, g->sums, lb_gru_gates(g->p, g->phase), gate - lb_gru_first(g->p, g->phase), lb_read(e, g->r_scale + at)),
        lb_read(e, g->r_bias + at));
}

LB_INLINE lb_ints gate_of(const lb_gru *g, const lb_lanes *e, int gate) {
    return lb_sigmoid_gate_lanes(lb_reals_add(input(g, e, gate), recurrent(g, e, gate)), g->table);
}

LB_INLINE lb_ints state_of(const lb_gru *g, const lb_lanes *e) {
    if (g->step || g->p->state_given)
        return lb_read_words(e, g->s);
    const lb_reals v = lb_reals_of(lb_ints_sub(lb_read_hidden(e, g->before), lb_ints_all(g->p->h_zero)));
    return lb_q12_lanes(v, g->p->state_multiplier);
}

LB_INLINE void finish(const lb_gru *g, const lb_lanes *e, lb_ints z, lb_reals ph) {
    const lb_ints fresh = lb_tanh_gate_lanes(lb_reals_add(input(g, e, 2), ph), g->table);
    const lb_ints next = lb_mix_lanes(z, state_of(g, e), lb_ints_sub(lb_ints_all(32768), z), fresh, g->p->state_bits);
    const lb_ints hidden = lb_to_hidden_lanes(g->p, next, g->p->h_multiplier);
    lb_write_words(e, g->s, next);
    lb_write_hidden(e, g->y, hidden);
    if (g->step == g->p->time - 1)
        lb_write_hidden(e, g->h, hidden);
}

/* A vector of units. Between phases z stands in row.kept, and r * h in the bytes behind it. */
LB_INLINE void some(const lb_gru *g, const lb_rnn_row *row, const lb_lanes e) {
    lb_hidden *reset = (lb_hidden *)(row->kept + (g->p->hidden + 63) / 64 * 64);
    if (g->p->linear_before_reset) {
        const lb_reals r = lb_reals_mul(lb_reals_of(gate_of(g, &e, 1)), lb_reals_all(0x1p-15f));
        finish(g, &e, gate_of(g, &e, 0), lb_reals_mul(r, recurrent(g, &e, 2)));
    } else if (g->phase == 0) {
        lb_write(&e, row->kept, lb_ints_as_reals(gate_of(g, &e, 0)));
        const lb_ints product = lb_ints_mul(gate_of(g, &e, 1), state_of(g, &e));
        lb_write_hidden(&e, reset, lb_to_hidden_lanes(g->p, product, g->p->reset_multiplier));
    } else
        finish(g, &e, lb_reals_as_ints(lb_read(&e, row->kept)), recurrent(g, &e, 2));
}

static void units(const lb_gru *g, const lb_units *u, const lb_rnn_row *row) {
    int32_t j = u->first;
    for (; j + LB_UNITS <= u->last; j += LB_UNITS)
        some(g, row, lb_all_lanes(j));
    if (j < u->last)
        some(g, row, lb_lanes_at(j, g->p->hidden));
}

/* The arguments of gru_s8 and gru_s16. */
typedef struct {
    const lb_gru_s8_params *p;
    const float *px, *bias;
    const void *r;
    const float *r_scale, *r_bias;
    const int16_t *table;
    const lb_hidden *h0;
    lb_hidden *y, *h;
    int16_t *s;
    void *scratch;
} lb_layer;

LB_INLINE void lb_layer_form(const lb_layer *l, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const lb_hidden *reset = (const lb_hidden *)(row->kept + (l->p->hidden + 63) / 64 * 64);
    lb_rnn_form(row, phase ? reset : step ? l->y + at.before : l->h0 + at.state, l->p->hidden, l->p->h_zero, lb_gru_gates(l->p, phase));
}

LB_INLINE void lb_layer_products(const lb_layer *l, const lb_units *u, int32_t step, int phase) {
    lb_gru_products(l->p, l->r, u, step, phase, l->scratch);
}

LB_INLINE void lb_layer_units(const lb_layer *l, const lb_units *u, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const ptrdiff_t gates = 3 * (ptrdiff_t)l->p->hidden, own = u->direction * gates;
    const lb_gru g = {.p = l->p,
                      .x = l->px + at.row * l->p->directions * gates + own,
                      .bias = l->bias + own,
                      .r_scale = l->r_scale + own,
                      .r_bias = l->r_bias + own,
                      .table = l->table,
                      .before = step ? l->y + at.before : l->h0 + at.state,
                      .y = l->y + at.y,
                      .h = l->h + at.state,
                      .s = l->s + at.state,
                      .sums = row->sums,
                      .step = step,
                      .phase = phase};
    units(&g, u, row);
}

#include "rnn/rnn_steps.h"

LB_INLINE void lb_gru_int_lanes(const lb_layer *l, int32_t begin, int32_t end) {
    lb_rnn_steps(l, l->p->linear_before_reset ? 1 : 2, begin, end);
}

#endif
