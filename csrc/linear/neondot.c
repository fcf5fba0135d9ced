#include "linear/dot4/dot4_neondot.h"

lb_linear_s8_fn lb_linear_s8__neondot;

void lb_linear_s8__neondot(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                           int8_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end);
}

lb_linear_s8_f32_fn lb_linear_s8_f32__neondot;

void lb_linear_s8_f32__neondot(const lb_linear_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                               const float *multiplier, float *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_F32, scratch, begin, end);
}

lb_linear_s8_s16_fn lb_linear_s8_s16__neondot;

void lb_linear_s8_s16__neondot(const lb_linear_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                               const float *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S16, scratch, begin, end);
}
