/* The walk of a GRU through time, by vectors of units. With linear_before_reset a panel has all three gates, and units are done one panel
 * after the other; else z and r of all units come first (phase 0), and their h behind them (phase 1). Behind rnn_avx2.h or
 * rnn_avx512vnni.h. */
#ifndef LB_GRU_LANES_H
#define LB_GRU_LANES_H

/* The gates whose sums a phase has, and which is the first of them. */
static inline int lb_gru_gates(const lb_lstm_s8_params *p, int phase) {
    return p->linear_before_reset ? 3 : phase ? 1 : 2;
}

static inline int lb_gru_first(const lb_lstm_s8_params *p, int phase) {
    return !p->linear_before_reset && phase ? 2 : 0;
}

static inline void lb_gru_products(const lb_lstm_s8_params *p, const void *r, const lb_units *u, int32_t step, int phase, void *scratch) {
    const char *weights = (const char *)r + u->direction * lb_weight_bytes(p->hidden, 3);
    if (p->linear_before_reset)
        lb_rnn_products(3, p, weights, u, step, scratch);
    else if (phase == 0)
        lb_rnn_products(2, p, weights, u, step, scratch);
    else
        lb_rnn_products(1, p, weights + lb_weight_bytes(p->hidden, 2), u, step, scratch);
}

#endif
