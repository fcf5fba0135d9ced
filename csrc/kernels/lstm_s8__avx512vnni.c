#include "lb_rnn_vnni.h"

#include "lb_lstm_s8_steps.h"

lb_lstm_s8_fn lb_lstm_s8__avx512vnni;

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
    lb_write_bytes(&e, s->y, state);
    if (s->h)
        lb_write_bytes(&e, s->h, state);
}

LB_INLINE void lb_lstm_units(const lb_lstm *s, ptrdiff_t first, ptrdiff_t last) {
    for (; first + LB_UNITS <= last; first += LB_UNITS)
        gates(s, lb_all_lanes(first));
    if (first < last)
        gates(s, lb_lanes_at(first, s->p->hidden));
}

void lb_lstm_s8__avx512vnni(const lb_lstm_s8_params *p, const float *px, const float *bias, const void *r, const float *r_scale,
                            const int16_t *table, const int8_t *h0, const float *c0, int8_t *y, int8_t *h, float *c, void *scratch,
                            int32_t begin, int32_t end) {
    lb_lstm_steps(p, px, bias, r, r_scale, table, h0, c0, y, h, c, scratch, begin, end);
}
