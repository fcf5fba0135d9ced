/* What lstm_rows_s8 and gru_rows_s8 share, by vectors of units. Behind rnn_avx2.h or rnn_avx512vnni.h, and with their lb_sigmoid_lanes and
 * lb_tanh_lanes. */
#ifndef LB_RNN_ROWS_LANES_H
#define LB_RNN_ROWS_LANES_H

#include <float.h>

/* row.form = floats as int8, by their scale, for panels of so many gates. */
static inline void lb_rnn_quantize(const lb_rnn_row *row, const float *x, int32_t n, int gates) {
    lb_reals most = lb_reals_all(0.0f);
    int32_t i = 0;
    for (; i + LB_UNITS <= n; i += LB_UNITS) {
        const lb_lanes e = lb_all_lanes(i);
        most = lb_reals_max(lb_reals_size(lb_read(&e, x)), most); /* what was there where one is NaN */
    }
    if (i < n) {
        const lb_lanes e = lb_lanes_at(i, n);
        most = lb_reals_max(lb_reals_size(lb_read(&e, x)), most);
    }
    float found[LB_UNITS], largest = 0.0f;
    const lb_lanes all = lb_all_lanes(0);
    lb_write(&all, found, most);
    for (int j = 0; j < LB_UNITS; j++)
        largest = found[j] > largest ? found[j] : largest;
    float scale = largest / 127.0f;
    scale = scale > 0.0f && scale <= FLT_MAX ? scale : 1.0f;
    *row->scale = scale;
    const lb_reals s = lb_reals_all(scale), lo = lb_reals_all(-127.0f), hi = lb_reals_all(127.0f);
    for (i = 0; i + LB_UNITS <= n; i += LB_UNITS) {
        const lb_lanes e = lb_all_lanes(i);
        lb_write_bytes(&e, row->h, lb_round_lanes(lb_reals_div(lb_read(&e, x), s), lo, hi));
    }
    if (i < n) {
        const lb_lanes e = lb_lanes_at(i, n);
        lb_write_bytes(&e, row->h, lb_round_lanes(lb_reals_div(lb_read(&e, x), s), lo, hi));
    }
    lb_rnn_form(row, row->h, n, 0, gates);
}

/* px * (x_scale * w_scale) + bias, for a gate whose rows begin at the pointers. */
LB_INLINE lb_reals lb_rows_input(const lb_lanes *e, const float *x, lb_reals x_scale, const float *w_scale, const float *bias) {
    const lb_reals scale = lb_reals_mul(x_scale, lb_read(e, w_scale));
    return lb_reals_add(lb_reals_mul(lb_read(e, x), scale), lb_read(e, bias));
}

/* fl32(sum) * (h_scale * r_scale). */
LB_INLINE lb_reals lb_rows_recurrent(const lb_lanes *e, const int32_t *sums, int gates, int gate, lb_reals h_scale, const float *r_scale) {
    return lb_scaled(e, sums, gates, gate, lb_reals_mul(h_scale, lb_read(e, r_scale)));
}

#endif
