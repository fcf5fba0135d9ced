#include "wide/linear_s16_armdsp.h"

lb_linear_s16_fn lb_linear_s16__armdsp;

void lb_linear_s16__armdsp(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                           int16_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_S16, begin, end);
}

lb_linear_s16_s8_fn lb_linear_s16_s8__armdsp;

void lb_linear_s16_s8__armdsp(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias,
                              const lb_f32 *multiplier, int8_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_S8, begin, end);
}

lb_linear_s16_f32_fn lb_linear_s16_f32__armdsp;

void lb_linear_s16_f32__armdsp(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                               const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_F32, begin, end);
}
