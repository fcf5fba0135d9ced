#include "linear/dot4/dot4_avxvnni.h"

#include "int4/w4_product_avx2.h"

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__avxvnni;

void lb_linear_w4_s8_s16__avxvnni(const lb_linear_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                  const float *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_linear_channels(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end);
}
