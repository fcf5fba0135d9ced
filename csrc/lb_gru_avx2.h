/* The walk of a GRU through time on AVX2. With linear_before_reset a panel has all three gates, and units are done one panel after the
 * other; else z and r of all units come first (phase 0), and their h behind them (phase 1). */
#ifndef LB_GRU_AVX2_H
#define LB_GRU_AVX2_H

#include "lb_rnn_avx2.h"

/* The gates whose sums a phase has, and which is the first of them. */
static inline int lb_gru_gates(const lb_lstm_s8_params *p, int phase) {
    return p->linear_before_reset ? 3 : phase ? 1 : 2;
}

static inline int lb_gru_first(const lb_lstm_s8_params *p, int phase) {
    return !p->linear_before_reset && phase ? 2 : 0;
}

static inline void lb_gru_products(const lb_lstm_s8_params *p, const void *r, const lb_units *u, int32_t step, int phase, void *scratch) {
    const ptrdiff_t count = lb_panels(p->hidden);
    const char *panels = (const char *)r + u->direction * count * lb_panel_bytes(p->hidden, 3);
    if (p->linear_before_reset)
        lb_rnn_products(3, p, panels, u, step, scratch);
    else if (phase == 0)
        lb_rnn_products(2, p, panels, u, step, scratch);
    else
        lb_rnn_products(1, p, panels + count * lb_panel_bytes(p->hidden, 2), u, step, scratch);
}

#endif
