#include "linear/dot4/dot4_avx512vnni.h"

#include "int4/w4_product_avx2.h"

lb_linear_w4_s8_fn lb_linear_w4_s8__avx512vnni;

void lb_linear_w4_s8__avx512vnni(const lb_linear_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const float *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_linear_channels(p, LB_TO_S8, x, w, bias, multiplier, out, scratch, begin, end);
}
