#include "linear/dot4/dot4_avxvnni.h"

lb_conv_s8_f32_fn lb_conv_s8_f32__avxvnni;

void lb_conv_s8_f32__avxvnni(const lb_conv_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                             float *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_F32, scratch, begin, end);
}
