#include "int4/w4_mve.h"

lb_conv_w4_s8_fn lb_conv_w4_s8__mve;

void lb_conv_w4_s8__mve(const lb_conv_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                        int8_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_conv(p, x, w, bias, multiplier, out, LB_TO_S8, scratch, begin, end);
}

lb_conv_w4_s8_s16_fn lb_conv_w4_s8_s16__mve;

void lb_conv_w4_s8_s16__mve(const lb_conv_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                            int16_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_conv(p, x, w, bias, multiplier, out, LB_TO_S16, scratch, begin, end);
}

lb_conv_w4_s8_f32_fn lb_conv_w4_s8_f32__mve;

void lb_conv_w4_s8_f32__mve(const lb_conv_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                            float *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_conv(p, x, w, bias, multiplier, out, LB_TO_F32, scratch, begin, end);
}
