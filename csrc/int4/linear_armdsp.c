#include "int4/w4_armdsp.h"

lb_linear_w4_s8_fn lb_linear_w4_s8__armdsp;

void lb_linear_w4_s8__armdsp(const lb_linear_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                             int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_w4_linear(p, x, w, bias, multiplier, out, LB_TO_S8, begin, end);
}

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__armdsp;

void lb_linear_w4_s8_s16__armdsp(const lb_linear_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_w4_linear(p, x, w, bias, multiplier, out, LB_TO_S16, begin, end);
}

lb_linear_w4_s8_f32_fn lb_linear_w4_s8_f32__armdsp;

void lb_linear_w4_s8_f32__armdsp(const lb_linear_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_w4_linear(p, x, w, bias, multiplier, out, LB_TO_F32, begin, end);
}
