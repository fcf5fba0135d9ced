#include "int4/w4_product_avx2.h"

lb_linear_w4_blocks_s8_f32_fn lb_linear_w4_blocks_s8_f32__avx2;

void lb_linear_w4_blocks_s8_f32__avx2(const lb_linear_w4_blocks_s8_f32_params *p, const int8_t *x, const void *w, const float *scales,
                                      const float *bias, float *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_linear_blocks(p, LB_TO_F32, x, NULL, w, scales, bias, out, scratch, begin, end);
}
