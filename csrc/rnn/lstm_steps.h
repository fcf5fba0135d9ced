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

/* The arguments of lstm_s8 and lstm_s16. */
typedef struct {
    const lb_lstm_s8_params *p;
    const float *px, *bias;
    const void *r;
    const float *r_scale;
    const int16_t *table;
    const lb_hidden *h0;
    const float *c0;
    lb_hidden *y, *h;
    float *c;
    void *scratch;
} lb_layer;

LB_INLINE void lb_layer_form(const lb_layer *l, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    (void)phase;
    lb_rnn_form(row, step ? l->y + at.before : l->h0 + at.state, l->p->hidden, l->p->h_zero, 4);
}

LB_INLINE void lb_layer_products(const lb_layer *l, const lb_units *u, int32_t step, int phase) {
    (void)phase;
    lb_rnn_products(4, l->p, (const char *)l->r + u->direction * lb_weight_bytes(l->p->hidden, 4), u, step, l->scratch);
}

LB_INLINE void lb_layer_units(const lb_layer *l, const lb_units *u, const lb_rnn_row *row, lb_moment at, int32_t step, int phase) {
    const ptrdiff_t n = l->p->hidden, own = u->direction * 4 * n;
    const lb_lstm s = {l->p,
                       l->px + at.row * l->p->directions * 4 * n + own,
                       l->bias + own,
                       l->r_scale + own,
                       l->table,
                       (step ? l->c : l->c0) + at.state,
                       row->sums,
                       l->y + at.y,
                       step == l->p->time - 1 ? l->h + at.state : NULL,
                       l->c + at.state};
    (void)phase;
    lb_lstm_units(&s, u->first, u->last);
}

#include "rnn/rnn_steps.h"

#endif
