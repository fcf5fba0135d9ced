#include "int4/w4_conv_avx2.h"

lb_conv_w4_s8_s16_fn lb_conv_w4_s8_s16__avx2;

void lb_conv_w4_s8_s16__avx2(const lb_conv_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                             const float *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_conv(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end);
}
