/* ISA: avx2 avx512vnni */
#include "rnn/rnn_s16_ISA.h"

#include "rnn/gru_int_lanes.h"

lb_gru_s16_fn lb_gru_s16__ISA;

void lb_gru_s16__ISA(const lb_gru_s16_params *p, const float *px, const float *bias, const int16_t *r, const float *r_scale,
                     const float *r_bias, const int16_t *table, const int16_t *h0, int16_t *y, int16_t *h, int16_t *s, void *scratch,
                     int32_t begin, int32_t end) {
    lb_gru_int_lanes(&(lb_layer){p, px, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch}, begin, end);
}
