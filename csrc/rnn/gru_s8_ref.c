#include <stdint.h>

typedef int8_t lb_hidden, lb_weight;
typedef int32_t lb_sum;

#include "rnn/gru_ref.h"

lb_gru_s8_fn lb_gru_s8__ref;

void lb_gru_s8__ref(const lb_gru_s8_params *p, const lb_f32 *px, const lb_f32 *bias, const void *r, const lb_f32 *r_scale,
                    const lb_f32 *r_bias, const int16_t *table, const int8_t *h0, int8_t *y, int8_t *h, int16_t *s, void *scratch,
                    int32_t begin, int32_t end) {
    lb_gru_ref(p, (lb_rnn_input){.px = px}, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch, begin, end);
}

lb_gru_x_s8_fn lb_gru_x_s8__ref;

void lb_gru_x_s8__ref(const lb_gru_x_s8_params *p, const int8_t *x, const int8_t *w, const lb_f32 *w_scale, const lb_f32 *bias,
                      const int8_t *r, const lb_f32 *r_scale, const lb_f32 *r_bias, const int16_t *table, const int8_t *h0, int8_t *y,
                      int8_t *h, int16_t *s, void *scratch, int32_t begin, int32_t end) {
    lb_gru_ref(p, (lb_rnn_input){.x = x, .w = w, .w_scale = w_scale}, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch, begin, end);
}
