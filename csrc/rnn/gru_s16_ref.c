#include "rnn/rnn_s16_ref.h"

#include "rnn/gru_ref.h"

lb_gru_s16_fn lb_gru_s16__ref;

void lb_gru_s16__ref(const lb_gru_s16_params *p, const lb_f32 *px, const lb_f32 *bias, const int16_t *r, const lb_f32 *r_scale,
                     const lb_f32 *r_bias, const int16_t *table, const int16_t *h0, int16_t *y, int16_t *h, int16_t *s, void *scratch,
                     int32_t begin, int32_t end) {
    lb_gru_ref(p, (lb_rnn_input){.px = px}, bias, r, r_scale, r_bias, table, h0, y, h, s, scratch, begin, end);
}
