#include "lb_rnn_avx2.h"

lb_lstm_s8_fn lb_lstm_s8__avx2;

/* What the units of a step need: the row of px, and parameters of the direction. */
typedef struct {
    const lb_lstm_s8_params *p;
    const float *x, *bias, *r_scale;
    const int16_t *table, *cell;
    const int32_t *sums;
    int8_t *y, *h; /* h is NULL before the last step */
    int16_t *c;
} lb_lstm;

LB_INLINE void gates(const lb_lstm *s, const lb_eight e) {
    const ptrdiff_t n = s->p->hidden;
    const int16_t *table = s->table;
    __m256 pre[4];
    for (int g = 0; g < 4; g++)
        pre[g] = _mm256_add_ps(_mm256_add_ps(lb_read(&e, s->x + g * n), lb_read(&e, s->bias + g * n)),
                               lb_scaled(&e, s->sums, 4, g, lb_read(&e, s->r_scale + g * n)));
    const __m256i kept = lb_sigmoid_gate8(pre[2], table), taken = lb_sigmoid_gate8(pre[0], table);
    const __m256i fresh = lb_tanh_gate8(pre[3], table), cell = lb_read_words(&e, s->cell);
    const __m256i next = lb_mix8(kept, cell, taken, fresh, s->p->state_bits);
    const __m256i squashed = lb_tanh16_8(lb_to_q12_8(next, s->p->state_bits), table);
    const __m256i out = _mm256_mullo_epi32(lb_sigmoid_gate8(pre[1], table), squashed);
    const __m256i state = lb_to_hidden8(s->p, out, s->p->h_multiplier);
    lb_write_words(&e, s->c, next);
    lb_write_bytes(&e, s->y, state);
    if (s->h)
        lb_write_bytes(&e, s->h, state);
}

void lb_lstm_s8__avx2(const lb_lstm_s8_params *p, const float *px, const float *bias, const void *r, const float *r_scale,
                      const int16_t *table, const int8_t *h0, const int16_t *c0, int8_t *y, int8_t *h, int16_t *c, void *scratch,
                      int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 4 * n;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        const ptrdiff_t own = u.direction * 4 * n;
        const char *panels = (const char *)r + u.direction * lb_panels(p->hidden) * lb_panel_bytes(p->hidden, 4);
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
                int32_t j = u.first;
                for (; j + 8 <= u.last; j += 8)
                    gates(&s, lb_whole_eight(j));
                if (j < u.last)
                    gates(&s, lb_eight_at(j, p->hidden));
            }
        }
    }
}
