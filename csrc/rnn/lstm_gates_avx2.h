/* The gates of an integer LSTM by AVX2, eight units to a vector. Include after lstm_steps.h. */
#ifndef LB_LSTM_GATES_AVX2_H
#define LB_LSTM_GATES_AVX2_H

enum { TOGETHER = 4 }; /* eights whose tables are read together */

LB_INLINE lb_lanes eight_at(const lb_lstm *s, ptrdiff_t first, int i, const int whole) {
    return whole ? lb_all_lanes(first + 8 * i) : lb_lanes_at(first, s->p->hidden);
}

/* `count` eights from the unit `first` on. */
LB_INLINE void gates(const lb_lstm *s, ptrdiff_t first, const int count, const int whole) {
    const ptrdiff_t n = s->p->hidden;
    const int16_t *table = s->table;
    lb_look gate[TOGETHER][4], cell[TOGETHER];
    __m256 shown[TOGETHER];
    for (int i = 0; i < count; i++) {
        const lb_lanes e = eight_at(s, first, i, whole);
        for (int g = 0; g < 4; g++) {
            const __m256 input = _mm256_add_ps(lb_read(&e, s->x + g * n), lb_read(&e, s->bias + g * n));
            const __m256 pre = _mm256_add_ps(input, lb_scaled(&e, s->sums, 4, g, lb_read(&e, s->r_scale + g * n)));
            lb_look_for(&gate[i][g], lb_q12_lanes(pre, g == 3 ? 4096.0f : 2048.0f));
        }
    }
    lb_compiler_barrier();
    for (int i = 0; i < count; i++) {
        const lb_lanes e = eight_at(s, first, i, whole);
        const __m256 input = lb_sigmoid_reals(lb_looked_up(&gate[i][0], table)), kept = lb_sigmoid_reals(lb_looked_up(&gate[i][2], table));
        const __m256 taken = _mm256_mul_ps(input, lb_tanh_reals(lb_looked_up(&gate[i][3], table)));
        const __m256 next = _mm256_add_ps(_mm256_mul_ps(kept, lb_read(&e, s->cell)), taken);
        lb_write(&e, s->c, next);
        lb_look_for(&cell[i], lb_q12_lanes(next, 4096.0f));
        shown[i] = lb_sigmoid_reals(lb_looked_up(&gate[i][1], table));
    }
    lb_compiler_barrier();
    for (int i = 0; i < count; i++) {
        const lb_lanes e = eight_at(s, first, i, whole);
        const __m256 out = _mm256_mul_ps(shown[i], lb_tanh_reals(lb_looked_up(&cell[i], table)));
        const __m256i state = lb_reals_to_hidden(s->p, out, s->p->h_multiplier);
        lb_write_hidden(&e, s->y, state);
        if (s->h)
            lb_write_hidden(&e, s->h, state);
    }
}

LB_INLINE void lb_lstm_units(const lb_lstm *s, ptrdiff_t first, ptrdiff_t last) {
    for (; first + 8 * TOGETHER <= last; first += 8 * TOGETHER)
        gates(s, first, TOGETHER, 1);
    for (; first + 8 <= last; first += 8)
        gates(s, first, 1, 1);
    if (first < last)
        gates(s, first, 1, 0);
}

#endif
