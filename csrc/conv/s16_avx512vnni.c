#include "linear/dot4/dot4_avx512vnni.h"

lb_conv_s8_s16_fn lb_conv_s8_s16__avx512vnni;

void lb_conv_s8_s16__avx512vnni(const lb_conv_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                const float *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_S16, scratch, begin, end);
}
