#include "rnn/rnn_armdsp.h"

#include "rnn/lstm_ref.h"

lb_lstm_s8_fn lb_lstm_s8__armdsp;

void lb_lstm_s8__armdsp(const lb_lstm_s8_params *p, const lb_f32 *px, const lb_f32 *bias, const void *r, const lb_f32 *r_scale,
                        const int16_t *table, const int8_t *h0, const lb_f32 *c0, int8_t *y, int8_t *h, lb_f32 *c, void *scratch,
                        int32_t begin, int32_t end) {
    (void)scratch;
    lb_lstm_ref(p, (lb_rnn_input){.px = px}, bias, r, r_scale, table, h0, c0, y, h, c, begin, end);
}

lb_lstm_x_s8_fn lb_lstm_x_s8__armdsp;

void lb_lstm_x_s8__armdsp(const lb_lstm_x_s8_params *p, const int8_t *x, const int8_t *w, const lb_f32 *w_scale, const lb_f32 *bias,
                          const int8_t *r, const lb_f32 *r_scale, const int16_t *table, const int8_t *h0, const lb_f32 *c0, int8_t *y,
                          int8_t *h, lb_f32 *c, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_lstm_ref(p, (lb_rnn_input){.x = x, .w = w, .w_scale = w_scale}, bias, r, r_scale, table, h0, c0, y, h, c, begin, end);
}
