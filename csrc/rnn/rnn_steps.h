/* The steps of a recurrent layer, by vectors of units. The including file defines lb_layer, which has `p`, the parameters, and `scratch`,
 * and three functions of a layer before this:
 *
 *   lb_layer_form      a row's state as the products of a phase take it
 *   lb_layer_products  the sums of an item's units, for all rows of the batch
 *   lb_layer_units     the gates of an item's units, from the sums of a row
 *
 * A step has one phase, or two where the second needs states that the first one makes (GRU). */
#ifndef LB_RNN_STEPS_H
#define LB_RNN_STEPS_H

LB_INLINE void lb_rnn_steps(const lb_layer *l, const int phases, int32_t begin, int32_t end) {
    const lb_lstm_s8_params *p = l->p;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        for (int32_t step = p->first; step < p->first + p->steps; step++)
            for (int phase = 0; phase < phases; phase++) {
                for (int32_t i = 0; i < p->batch; i++) {
                    const lb_rnn_row row = lb_rnn_row_at(l->scratch, p->hidden, i);
                    lb_layer_form(l, &row, lb_moment_of(p, u.direction, step, i), step, phase);
                }
                lb_layer_products(l, &u, step, phase);
                for (int32_t i = 0; i < p->batch; i++) {
                    const lb_rnn_row row = lb_rnn_row_at(l->scratch, p->hidden, i);
                    lb_layer_units(l, &u, &row, lb_moment_of(p, u.direction, step, i), step, phase);
                }
            }
    }
}

#endif
