#include "lb_w4_armdsp.h"

lb_conv_w4_s8_fn lb_conv_w4_s8__armdsp;

void lb_conv_w4_s8__armdsp(const lb_conv_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                           int8_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_conv(p, x, w, bias, multiplier, out, LB_TO_S8, scratch, begin, end);
}
