/* What lstm_rows_s8 and gru_rows_s8 share on AVX2. */
#ifndef LB_RNN_ROWS_AVX2_H
#define LB_RNN_ROWS_AVX2_H

#include "lb_exp_avx2.h"
#include "lb_rnn_avx2.h"

#include <float.h>

/* row.form = floats as int8, by their scale, for panels of so many gates. */
static inline void lb_rnn_quantize(const lb_rnn_row *row, const float *x, int32_t n, int gates) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_setzero_ps();
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) /* vmaxps gives the second operand where one is NaN */
        most = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)), most);
    if (i < n) {
        const lb_eight e = lb_eight_at(i, n);
        most = _mm256_max_ps(_mm256_andnot_ps(sign, lb_read(&e, x)), most);
    }
    _Alignas(32) float found[8];
    _mm256_store_ps(found, most);
    float largest = 0.0f;
    for (int j = 0; j < 8; j++)
        largest = found[j] > largest ? found[j] : largest;
    float scale = largest / 127.0f;
    scale = scale > 0.0f && scale <= FLT_MAX ? scale : 1.0f;
    *row->scale = scale;
    const __m256 s = _mm256_set1_ps(scale), lo = _mm256_set1_ps(-127.0f), hi = _mm256_set1_ps(127.0f);
    for (i = 0; i + 8 <= n; i += 8) {
        const lb_eight e = lb_whole_eight(i);
        lb_write_bytes(&e, row->h, lb_round8(_mm256_div_ps(lb_read(&e, x), s), lo, hi));
    }
    if (i < n) {
        const lb_eight e = lb_eight_at(i, n);
        lb_write_bytes(&e, row->h, lb_round8(_mm256_div_ps(lb_read(&e, x), s), lo, hi));
    }
    lb_rnn_form(row, row->h, n, 0, gates);
}

/* px * (x_scale * w_scale) + bias, for a gate whose rows begin at the pointers. */
LB_INLINE __m256 lb_rows_input(const lb_eight *e, const float *x, __m256 x_scale, const float *w_scale, const float *bias) {
    const __m256 scale = _mm256_mul_ps(x_scale, lb_read(e, w_scale));
    return _mm256_add_ps(_mm256_mul_ps(lb_read(e, x), scale), lb_read(e, bias));
}

/* fl32(sum) * (h_scale * r_scale). */
LB_INLINE __m256 lb_rows_recurrent(const lb_eight *e, const int32_t *sums, int gates, int gate, __m256 h_scale, const float *r_scale) {
    return lb_scaled(e, sums, gates, gate, _mm256_mul_ps(h_scale, lb_read(e, r_scale)));
}

#endif
