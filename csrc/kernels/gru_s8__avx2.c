#include "lb_gru_avx2.h"

lb_gru_s8_fn lb_gru_s8__avx2;

/* What eight units of a step need. */
typedef struct {
    const lb_gru_s8_params *p;
    const float *x, *bias, *r_scale, *r_bias; /* of the direction, and of the row of px */
    const int16_t *table;
    const int8_t *before;
    int8_t *y, *h;
    int16_t *s;
    const int32_t *sums;
    int32_t step;
    int phase;
} lb_gru;

LB_INLINE __m256 input(const lb_gru *g, const lb_eight *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return _mm256_add_ps(lb_read(e, g->x + at), lb_read(e, g->bias + at));
}

LB_INLINE __m256 recurrent(const lb_gru *g, const lb_eight *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return _mm256_add_ps(
        lb_scaled(e, g->sums, lb_gru_gates(g->p, g->phase), gate - lb_gru_first(g->p, g->phase), lb_read(e, g->r_scale + at)),
        lb_read(e, g->r_bias + at));
}

LB_INLINE __m256i gate_of(const lb_gru *g, const lb_eight *e, int gate) {
    return lb_sigmoid_gate8(_mm256_add_ps(input(g, e, gate), recurrent(g, e, gate)), g->table);
}

LB_INLINE __m256i state_of(const lb_gru *g, const lb_eight *e) {
    if (g->step || g->p->state_given)
        return lb_read_words(e, g->s);
    _Alignas(16) int8_t bytes[16] = {0};
    memcpy(bytes, g->before + e->first, (size_t)e->count);
    const __m256i q = _mm256_cvtepi8_epi32(_mm_load_si128((const __m128i *)(const void *)bytes));
    const __m256 v = _mm256_cvtepi32_ps(_mm256_sub_epi32(q, _mm256_set1_epi32(g->p->h_zero)));
    return lb_q12_8(v, g->p->state_multiplier);
}

LB_INLINE void finish(const lb_gru *g, const lb_eight *e, __m256i z, __m256 ph) {
    const __m256i fresh = lb_tanh_gate8(_mm256_add_ps(input(g, e, 2), ph), g->table);
    const __m256i next = lb_mix8(z, state_of(g, e), _mm256_sub_epi32(_mm256_set1_epi32(32768), z), fresh, g->p->state_bits);
    const __m256i hidden = lb_to_hidden8(g->p, next, g->p->h_multiplier);
    lb_write_words(e, g->s, next);
    lb_write_bytes(e, g->y, hidden);
    if (g->step == g->p->time - 1)
        lb_write_bytes(e, g->h, hidden);
}

/* Eight units. Between phases z stands in row.kept, and r * h in the bytes behind it. */
LB_INLINE void eight(const lb_gru *g, const lb_rnn_row *row, const lb_eight e) {
    int8_t *reset = (int8_t *)(row->kept + (g->p->hidden + 63) / 64 * 64);
    if (g->p->linear_before_reset) {
        const __m256 r = _mm256_mul_ps(_mm256_cvtepi32_ps(gate_of(g, &e, 1)), _mm256_set1_ps(0x1p-15f));
        finish(g, &e, gate_of(g, &e, 0), _mm256_mul_ps(r, recurrent(g, &e, 2)));
    } else if (g->phase == 0) {
        lb_write(&e, row->kept, _mm256_castsi256_ps(gate_of(g, &e, 0)));
        const __m256i product = _mm256_mullo_epi32(gate_of(g, &e, 1), state_of(g, &e));
        lb_write_bytes(&e, reset, lb_to_hidden8(g->p, product, g->p->reset_multiplier));
    } else
        finish(g, &e, _mm256_castps_si256(lb_read(&e, row->kept)), recurrent(g, &e, 2));
}

static void units(const lb_gru *g, const lb_units *u, const lb_rnn_row *row) {
    int32_t j = u->first;
    for (; j + 8 <= u->last; j += 8)
        eight(g, row, lb_whole_eight(j));
    if (j < u->last)
        eight(g, row, lb_eight_at(j, g->p->hidden));
}

void lb_gru_s8__avx2(const lb_gru_s8_params *p, const float *px, const float *bias, const void *r, const float *r_scale,
                     const float *r_bias, const int16_t *table, const int8_t *h0, int8_t *y, int8_t *h, int16_t *s, void *scratch,
                     int32_t begin, int32_t end) {
    const ptrdiff_t n = p->hidden, rows = p->directions * 3 * n;
    for (int32_t item = begin; item < end; item++) {
        const lb_units u = lb_units_of(p, item);
        const ptrdiff_t own = u.direction * 3 * n;
        for (int32_t step = p->first; step < p->first + p->steps; step++)
            for (int phase = 0; phase < (p->linear_before_reset ? 1 : 2); phase++) {
                for (int32_t i = 0; i < p->batch; i++) {
                    const lb_moment at = lb_moment_of(p, u.direction, step, i);
                    const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, i);
                    const int8_t *reset = (const int8_t *)(row.kept + (n + 63) / 64 * 64);
                    lb_rnn_form(&row, phase ? reset : step ? y + at.before : h0 + at.state, p->hidden, p->h_zero, lb_gru_gates(p, phase));
                }
                lb_gru_products(p, r, &u, step, phase, scratch);
                for (int32_t i = 0; i < p->batch; i++) {
                    const lb_moment at = lb_moment_of(p, u.direction, step, i);
                    const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, i);
                    const lb_gru g = {p,
                                      px + at.row * rows + own,
                                      bias + own,
                                      r_scale + own,
                                      r_bias + own,
                                      table,
                                      step ? y + at.before : h0 + at.state,
                                      y + at.y,
                                      h + at.state,
                                      s + at.state,
                                      row.sums,
                                      step,
                                      phase};
                    units(&g, &u, &row);
                }
            }
    }
}
