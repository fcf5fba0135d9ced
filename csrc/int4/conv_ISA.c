/* ISA: avx2 avxvnni avx512vnni, each kernel alone */
#include "int4/w4_ISA.h"

#include "int4/w4_conv_x86.h"
#include "base/product_kernel.h"

lb_conv_w4_s8_fn lb_conv_w4_s8__ISA;

LB_PRODUCT_KERNEL(conv_w4_s8, ISA, int8_t, lb_w4_conv(p, LB_TO_S8, x, w, bias, multiplier, out, scratch, begin, end))

lb_conv_w4_s8_s16_fn lb_conv_w4_s8_s16__ISA;

LB_PRODUCT_KERNEL(conv_w4_s8_s16, ISA, int16_t, lb_w4_conv(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end))

lb_conv_w4_s8_f32_fn lb_conv_w4_s8_f32__ISA;

LB_PRODUCT_KERNEL(conv_w4_s8_f32, ISA, float, lb_w4_conv(p, LB_TO_F32, x, w, bias, multiplier, out, scratch, begin, end))
