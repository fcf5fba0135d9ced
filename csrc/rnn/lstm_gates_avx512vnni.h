/* The gates of an integer LSTM by AVX-512, sixteen units to a vector. Behind lstm_steps.h. */
#ifndef LB_LSTM_GATES_AVX512VNNI_H
#define LB_LSTM_GATES_AVX512VNNI_H

/* A vector of units. */
LB_INLINE void gates(const lb_lstm *s, const lb_lanes e) {
    const ptrdiff_t n = s->p->hidden;
    __m512i at[4];
    for (int g = 0; g < 4; g++) {
        const __m512 input = _mm512_add_ps(lb_read(&e, s->x + g * n), lb_read(&e, s->bias + g * n));
        const __m512 pre = _mm512_add_ps(input, lb_scaled(&e, s->sums, 4, g, lb_read(&e, s->r_scale + g * n)));
        at[g] = lb_tanh16_lanes(lb_q12_lanes(pre, g == 3 ? 4096.0f : 2048.0f), s->table);
    }
    const __m512 taken = _mm512_mul_ps(lb_sigmoid_reals(at[0]), lb_tanh_reals(at[3]));
    const __m512 next = _mm512_add_ps(_mm512_mul_ps(lb_sigmoid_reals(at[2]), lb_read(&e, s->cell)), taken);
    lb_write(&e, s->c, next);
    const __m512 shown = lb_tanh_reals(lb_tanh16_lanes(lb_q12_lanes(next, 4096.0f), s->table));
    const __m512i state = lb_reals_to_hidden(s->p, _mm512_mul_ps(lb_sigmoid_reals(at[1]), shown), s->p->h_multiplier);
    lb_write_hidden(&e, s->y, state);
    if (s->h)
        lb_write_hidden(&e, s->h, state);
}

LB_INLINE void lb_lstm_units(const lb_lstm *s, ptrdiff_t first, ptrdiff_t last) {
    for (; first + LB_UNITS <= last; first += LB_UNITS)
        gates(s, lb_all_lanes(first));
    if (first < last)
        gates(s, lb_lanes_at(first, s->p->hidden));
}

#endif
