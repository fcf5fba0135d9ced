/* ISA: avx2 avx512vnni */
#include "rnn/rnn_ISA.h"

#include "rnn/rnn_s8.h"

#include "rnn/gru_int_lanes.h"

lb_gru_s8_fn lb_gru_s8__ISA;

void lb_gru_s8__ISA(const lb_gru_s8_params *p, const float *px, const float *bias, const void *r, const float *r_scale, const float *r_bias,
                    const int16_t *table, const int8_t *h0, int8_t *y, int8_t *h, int16_t *s, void *scratch, int32_t begin, int32_t end) {
    lb_gru_int_lanes(&(lb_layer){p, px, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch}, begin, end);
}
