/* ISA: avx2 avx512vnni */
#include "rnn/rnn_s16_ISA.h"

#include "rnn/lstm_steps.h"

#include "rnn/lstm_gates_ISA.h"

lb_lstm_s16_fn lb_lstm_s16__ISA;

void lb_lstm_s16__ISA(const lb_lstm_s16_params *p, const float *px, const float *bias, const int16_t *r, const float *r_scale,
                      const int16_t *table, const int16_t *h0, const float *c0, int16_t *y, int16_t *h, float *c, void *scratch,
                      int32_t begin, int32_t end) {
    lb_rnn_steps(&(lb_layer){p, px, bias, r, r_scale, table, h0, c0, y, h, c, scratch}, 1, begin, end);
}
