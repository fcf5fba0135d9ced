#include "int4/w4_product_avx2.h"

lb_linear_w4_blocks_s8_fn lb_linear_w4_blocks_s8__avx2;

void lb_linear_w4_blocks_s8__avx2(const lb_linear_w4_blocks_s8_params *p, const int8_t *x, const void *w, const float *scales,
                                  const float *bias, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_linear_blocks(p, LB_TO_S8, x, NULL, w, scales, bias, out, scratch, begin, end);
}
