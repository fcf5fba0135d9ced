/* ISA: avx2 avx512vnni */
#include "rnn/rnn_rows_ISA.h"

#include "rnn/gru_rows_s8_lanes.h"

lb_gru_rows_s8_fn lb_gru_rows_s8__ISA;

void lb_gru_rows_s8__ISA(const lb_gru_rows_s8_params *p, const float *px, const float *x_scale, const float *w_scale, const float *bias,
                         const void *r, const float *r_scale, const float *r_bias, const float *h0, float *y, float *h, void *scratch,
                         int32_t begin, int32_t end) {
    lb_gru_rows_s8_lanes(&(lb_layer){p, px, x_scale, w_scale, bias, r, r_scale, r_bias, h0, y, h, scratch}, begin, end);
}
