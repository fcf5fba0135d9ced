#include "rnn/rnn_s16_ref.h"

#include "rnn/lstm_ref.h"

lb_lstm_s16_fn lb_lstm_s16__ref;

void lb_lstm_s16__ref(const lb_lstm_s16_params *p, const lb_f32 *px, const lb_f32 *bias, const int16_t *r, const lb_f32 *r_scale,
                      const int16_t *table, const int16_t *h0, const lb_f32 *c0, int16_t *y, int16_t *h, lb_f32 *c, void *scratch,
                      int32_t begin, int32_t end) {
    (void)scratch;
    lb_lstm_ref(p, (lb_rnn_input){.px = px}, bias, r, r_scale, table, h0, c0, y, h, c, begin, end);
}
