/* ISA: avx2 avx512vnni */
#include "rnn/rnn_rows_ISA.h"

#include "rnn/lstm_rows_s8_lanes.h"

lb_lstm_rows_s8_fn lb_lstm_rows_s8__ISA;

void lb_lstm_rows_s8__ISA(const lb_lstm_rows_s8_params *p, const float *px, const float *x_scale, const float *w_scale, const float *bias,
                          const void *r, const float *r_scale, const float *h0, const float *c0, float *y, float *h, float *c,
                          void *scratch, int32_t begin, int32_t end) {
    lb_rnn_steps(&(lb_layer){p, px, x_scale, w_scale, bias, r, r_scale, h0, c0, y, h, c, scratch}, 1, begin, end);
}
