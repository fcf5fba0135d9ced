/* An item's units of a GRU, vector by vector. `some`, a vector of units, and lb_layer stand before this. */
#ifndef LB_GRU_UNITS_H
#define LB_GRU_UNITS_H

static void units(const lb_gru *g, const lb_units *u, const lb_rnn_row *row) {
    int32_t j = u->first;
    for (; j + LB_UNITS <= u->last; j += LB_UNITS)
        some(g, row, lb_all_lanes(j));
    if (j < u->last)
        some(g, row, lb_lanes_at(j, g->p->hidden));
}

LB_INLINE void lb_layer_products(const lb_layer *l, const lb_units *u, int32_t step, int phase) {
    lb_gru_products(l->p, l->r, u, step, phase, l->scratch);
}

#endif
