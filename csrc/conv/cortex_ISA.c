/* ISA: armdsp mve */
#include "conv/conv_ISA.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__ISA;

LB_PRODUCT_KERNEL(conv_s8, ISA, int8_t, lb_conv_ISA(p, x, w, bias, multiplier, out, LB_TO_S8, scratch, begin, end))

lb_conv_s8_f32_fn lb_conv_s8_f32__ISA;

LB_PRODUCT_KERNEL(conv_s8_f32, ISA, lb_f32, lb_conv_ISA(p, x, w, bias, multiplier, out, LB_TO_F32, scratch, begin, end))

lb_conv_s8_s16_fn lb_conv_s8_s16__ISA;

LB_PRODUCT_KERNEL(conv_s8_s16, ISA, int16_t, lb_conv_ISA(p, x, w, bias, multiplier, out, LB_TO_S16, scratch, begin, end))
