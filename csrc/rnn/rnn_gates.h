/* Gates by vectors of units: rnn_shared.h over the words of rnn_words.h. The including file defines lb_round_lanes and lb_tanh16_lanes. */
#ifndef LB_RNN_GATES_H
#define LB_RNN_GATES_H

/* sigmoid in Q0.15 from the tanh of half its argument. */
LB_INLINE lb_ints lb_sigmoid_of(lb_ints tanh) {
    return lb_ints_shift(lb_ints_add(tanh, lb_ints_all(32768)), 1);
}

/* lb_tanh_real, from the entry of the table. */
LB_INLINE lb_reals lb_tanh_reals(lb_ints tanh) {
    return lb_reals_mul(lb_reals_of(tanh), lb_reals_all(0x1p-15f));
}

LB_INLINE lb_ints lb_q12_lanes(lb_reals v, float factor) {
    return lb_round_lanes(lb_reals_mul(v, lb_reals_all(factor)), lb_reals_all(-32768.0f), lb_reals_all(32767.0f));
}

LB_INLINE lb_ints lb_tanh_gate_lanes(lb_reals v, const int16_t *table) {
    return lb_tanh16_lanes(lb_q12_lanes(v, 4096.0f), table);
}

LB_INLINE lb_ints lb_sigmoid_gate_lanes(lb_reals v, const int16_t *table) {
    return lb_sigmoid_of(lb_tanh16_lanes(lb_q12_lanes(v, 2048.0f), table));
}

LB_INLINE lb_ints lb_clamp16_lanes(lb_ints v) {
    return lb_ints_min(lb_ints_max(v, lb_ints_all(-32768)), lb_ints_all(32767));
}

LB_INLINE lb_ints lb_mix_lanes(lb_ints keep, lb_ints old, lb_ints take, lb_ints fresh, int32_t bits) {
    const lb_ints taken = lb_ints_shift_by(lb_ints_mul(take, fresh), 15 - bits);
    const lb_ints sum = lb_ints_add(lb_ints_add(lb_ints_mul(keep, old), taken), lb_ints_all(1 << 14));
    return lb_clamp16_lanes(lb_ints_shift(sum, 15));
}

/* clamp(rne(v * multiplier) + h_zero), and that of integers. */
LB_INLINE lb_ints lb_reals_to_hidden(const lb_lstm_s8_params *p, lb_reals v, float multiplier) {
    const lb_reals lo = lb_reals_all((float)(p->lo - p->h_zero)), hi = lb_reals_all((float)(p->hi - p->h_zero));
    const lb_ints q = lb_round_lanes(lb_reals_mul(v, lb_reals_all(multiplier)), lo, hi);
    return lb_ints_add(q, lb_ints_all(p->h_zero));
}

LB_INLINE lb_ints lb_to_hidden_lanes(const lb_lstm_s8_params *p, lb_ints v, float multiplier) {
    return lb_reals_to_hidden(p, lb_reals_of(v), multiplier);
}

#endif
