/* ISA: armdsp mve */
#include "int4/w4_ISA.h"
#include "base/product_kernel.h"

lb_linear_w4_s8_fn lb_linear_w4_s8__ISA;

LB_PRODUCT_KERNEL(linear_w4_s8, ISA, int8_t, lb_w4_linear(p, x, w, bias, multiplier, out, LB_TO_S8, begin, end))

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__ISA;

LB_PRODUCT_KERNEL(linear_w4_s8_s16, ISA, int16_t, lb_w4_linear(p, x, w, bias, multiplier, out, LB_TO_S16, begin, end))

lb_linear_w4_s8_f32_fn lb_linear_w4_s8_f32__ISA;

LB_PRODUCT_KERNEL(linear_w4_s8_f32, ISA, lb_f32, lb_w4_linear(p, x, w, bias, multiplier, out, LB_TO_F32, begin, end))
