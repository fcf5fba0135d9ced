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

LB_INLINE void lb_lstm_rows_s8_lanes(const lb_lstm_rows_s8_params *p, const float *px, const float *x_scale, const float *w_scale,
                                     const float *bias, const void *r, const float *r_scale, const float *h0, const float *c0, float *y,
                                     float *h, float *c, void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 4 * n;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        const ptrdiff_t own = u.direction * 4 * n;
        const char *weights = (const char *)r + u.direction * lb_weight_bytes(p->hidden, 4);
        for (int32_t step = p->first; step < p->first + p->steps; step++) {
            for (int32_t i = 0; i < p->batch; i++) {
                const lb_moment at = lb_moment_of(p, u.direction, step, i);
                const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, i);
                lb_rnn_quantize(&row, step ? y + at.before : h0 + at.state, p->hidden, 4);
            }
            lb_rnn_products(4, p, weights, &u, step, scratch);
            for (int32_t i = 0; i < p->batch; i++) {
                const lb_moment at = lb_moment_of(p, u.direction, step, i);
                const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, i);
                const lb_lstm s = {px + at.row * rows + own,
                                   w_scale + own,
                                   bias + own,
                                   r_scale + own,
                                   (step ? c : c0) + at.state,
                                   lb_reals_all(x_scale[at.row]),
                                   lb_reals_all(*row.scale),
                                   row.sums,
                                   y + at.y,
                                   step == p->time - 1 ? h + at.state : NULL,
                                   c + at.state,
                                   n};
                int32_t j = u.first;
                for (; j + LB_UNITS <= u.last; j += LB_UNITS)
                    gates(&s, lb_all_lanes(j));
                if (j < u.last)
                    gates(&s, lb_lanes_at(j, p->hidden));
            }
        }
    }
}

#endif
