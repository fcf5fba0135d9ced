/* lstm_s8 and lstm_s16, one time behind the other: what is the same for every width. Behind rnn_s8.h or lb_rnn_s16_*.h;
 * lb_lstm_gates_*.h define lb_lstm_units, the gates of units first ... last - 1. */
#ifndef LB_LSTM_STEPS_H
#define LB_LSTM_STEPS_H

/* What the units of a step need: the row of px, and parameters of the direction. */
typedef struct {
    const lb_lstm_s8_params *p;
    const float *x, *bias, *r_scale;
    const int16_t *table;
    const float *cell;
    const int32_t *sums;
    lb_hidden *y, *h; /* h is NULL before the last step */
    float *c;
} lb_lstm;

LB_INLINE void lb_lstm_units(const lb_lstm *s, ptrdiff_t first, ptrdiff_t last);

LB_INLINE void lb_lstm_steps(const lb_lstm_s8_params *p, const float *px, const float *bias, const void *r, const float *r_scale,
                             const int16_t *table, const lb_hidden *h0, const float *c0, lb_hidden *y, lb_hidden *h, float *c,
                             void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 4 * n;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        const ptrdiff_t own = u.direction * 4 * n;
        const char *panels = (const char *)r + u.direction * lb_weight_bytes(p->hidden, 4);
        for (int32_t step = p->first; step < p->first + p->steps; step++) {
            for (int32_t i = 0; i < p->batch; i++) {
                const lb_moment at = lb_moment_of(p, u.direction, step, i);
                const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, i);
                lb_rnn_form(&row, step ? y + at.before : h0 + at.state, p->hidden, p->h_zero, 4);
            }
            lb_rnn_products(4, p, panels, &u, step, scratch);
            for (int32_t i = 0; i < p->batch; i++) {
                const lb_moment at = lb_moment_of(p, u.direction, step, i);
                const lb_lstm s = {p,
                                   px + at.row * rows + own,
                                   bias + own,
                                   r_scale + own,
                                   table,
                                   (step ? c : c0) + at.state,
                                   lb_rnn_row_at(scratch, p->hidden, i).sums,
                                   y + at.y,
                                   step == p->time - 1 ? h + at.state : NULL,
                                   c + at.state};
                lb_lstm_units(&s, u.first, u.last);
            }
        }
    }
}

#endif
