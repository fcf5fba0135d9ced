#include "lb_gru_avx2.h"
#include "lb_rnn_rows_avx2.h"

lb_gru_rows_s8_fn lb_gru_rows_s8__avx2;

/* What eight units of a step need. */
typedef struct {
    const lb_gru_rows_s8_params *p;
    const float *x, *w_scale, *bias, *r_scale, *r_bias; /* of the direction, and of the row of px */
    const float *before;
    float *y, *h;
    __m256 x_scale, h_scale;
    const int32_t *sums;
    int32_t step;
    int phase;
} lb_gru;

LB_INLINE __m256 input(const lb_gru *g, const lb_eight *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return lb_rows_input(e, g->x + at, g->x_scale, g->w_scale + at, g->bias + at);
}

LB_INLINE __m256 recurrent(const lb_gru *g, const lb_eight *e, int gate) {
    const ptrdiff_t at = gate * (ptrdiff_t)g->p->hidden;
    return _mm256_add_ps(
        lb_rows_recurrent(e, g->sums, lb_gru_gates(g->p, g->phase), gate - lb_gru_first(g->p, g->phase), g->h_scale, g->r_scale + at),
        lb_read(e, g->r_bias + at));
}

LB_INLINE __m256 gate_of(const lb_gru *g, const lb_eight *e, int gate) {
    return lb_sigmoid8(_mm256_add_ps(input(g, e, gate), recurrent(g, e, gate)));
}

LB_INLINE void finish(const lb_gru *g, const lb_eight *e, __m256 z, __m256 ph) {
    const __m256 fresh = lb_tanh8(_mm256_add_ps(input(g, e, 2), ph));
    const __m256 taken = _mm256_mul_ps(_mm256_sub_ps(_mm256_set1_ps(1.0f), z), fresh);
    const __m256 next = _mm256_add_ps(taken, _mm256_mul_ps(z, lb_read(e, g->before)));
    lb_write(e, g->y, next);
    if (g->step == g->p->time - 1)
        lb_write(e, g->h, next);
}

/* Eight units. Between phases z stands in row.kept, and r * h behind it. */
LB_INLINE void eight(const lb_gru *g, const lb_rnn_row *row, const lb_eight e) {
    float *reset = row->kept + (g->p->hidden + 63) / 64 * 64;
    if (g->p->linear_before_reset)
        finish(g, &e, gate_of(g, &e, 0), _mm256_mul_ps(gate_of(g, &e, 1), recurrent(g, &e, 2)));
    else if (g->phase == 0) {
        lb_write(&e, row->kept, gate_of(g, &e, 0));
        lb_write(&e, reset, _mm256_mul_ps(gate_of(g, &e, 1), lb_read(&e, g->before)));
    } else
        finish(g, &e, lb_read(&e, row->kept), recurrent(g, &e, 2));
}

static void units(const lb_gru *g, const lb_units *u, const lb_rnn_row *row) {
    int32_t j = u->first;
    for (; j + 8 <= u->last; j += 8)
        eight(g, row, lb_whole_eight(j));
    if (j < u->last)
        eight(g, row, lb_eight_at(j, g->p->hidden));
}

void lb_gru_rows_s8__avx2(const lb_gru_rows_s8_params *p, const float *px, const float *x_scale, const float *w_scale, const float *bias,
                          const void *r, const float *r_scale, const float *r_bias, const float *h0, float *y, float *h, void *scratch,
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
                    const float *reset = row.kept + (n + 63) / 64 * 64;
                    lb_rnn_quantize(&row, phase ? reset : step ? y + at.before : h0 + at.state, p->hidden, lb_gru_gates(p, phase));
                }
                lb_gru_products(p, r, &u, step, phase, scratch);
                for (int32_t i = 0; i < p->batch; i++) {
                    const lb_moment at = lb_moment_of(p, u.direction, step, i);
                    const lb_rnn_row row = lb_rnn_row_at(scratch, p->hidden, i);
                    const lb_gru g = {p,
                                      px + at.row * rows + own,
                                      w_scale + own,
                                      bias + own,
                                      r_scale + own,
                                      r_bias + own,
                                      step ? y + at.before : h0 + at.state,
                                      y + at.y,
                                      h + at.state,
                                      _mm256_set1_ps(x_scale[at.row]),
                                      _mm256_set1_ps(*row.scale),
                                      row.sums,
                                      step,
                                      phase};
                    units(&g, &u, &row);
                }
            }
    }
}
