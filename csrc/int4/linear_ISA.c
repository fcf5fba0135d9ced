/* ISA: avx2 avxvnni avx512vnni, each kernel alone */
#include "int4/w4_ISA.h"

#include "int4/w4_linear_x86.h"
#include "base/product_kernel.h"

lb_linear_w4_s8_fn lb_linear_w4_s8__ISA;

LB_PRODUCT_KERNEL(linear_w4_s8, ISA, int8_t, lb_w4_linear_channels(p, LB_TO_S8, x, w, bias, multiplier, out, scratch, begin, end))

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__ISA;

LB_PRODUCT_KERNEL(linear_w4_s8_s16, ISA, int16_t, lb_w4_linear_channels(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end))

lb_linear_w4_s8_f32_fn lb_linear_w4_s8_f32__ISA;

LB_PRODUCT_KERNEL(linear_w4_s8_f32, ISA, float, lb_w4_linear_channels(p, LB_TO_F32, x, w, bias, multiplier, out, scratch, begin, end))

lb_linear_w4_blocks_s8_fn lb_linear_w4_blocks_s8__ISA;

LB_W4_BLOCKS_KERNEL(linear_w4_blocks_s8, ISA, int8_t, LB_TO_S8)

lb_linear_w4_blocks_s8_s16_fn lb_linear_w4_blocks_s8_s16__ISA;

LB_W4_BLOCKS_KERNEL(linear_w4_blocks_s8_s16, ISA, int16_t, LB_TO_S16)

lb_linear_w4_blocks_s8_f32_fn lb_linear_w4_blocks_s8_f32__ISA;

LB_W4_BLOCKS_KERNEL(linear_w4_blocks_s8_f32, ISA, float, LB_TO_F32)

lb_linear_w4_rows_f32_fn lb_linear_w4_rows_f32__ISA;

void lb_linear_w4_rows_f32__ISA(const lb_linear_w4_rows_f32_params *p, const int8_t *x, const float *x_scales, const void *w,
                                const float *scales, const float *bias, float *out, void *scratch, int32_t begin, int32_t end) {
    lb_w4_linear_blocks(p, LB_TO_F32, x, x_scales, w, scales, bias, out, scratch, begin, end);
}
