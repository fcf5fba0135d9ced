#include "conv/conv_mve.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__mve;

LB_PRODUCT_KERNEL(conv_s8, mve, int8_t, lb_conv_mve(p, x, w, bias, multiplier, out, LB_TO_S8, scratch, begin, end))

lb_conv_s8_f32_fn lb_conv_s8_f32__mve;

LB_PRODUCT_KERNEL(conv_s8_f32, mve, float, lb_conv_mve(p, x, w, bias, multiplier, out, LB_TO_F32, scratch, begin, end))

lb_conv_s8_s16_fn lb_conv_s8_s16__mve;

LB_PRODUCT_KERNEL(conv_s8_s16, mve, int16_t, lb_conv_mve(p, x, w, bias, multiplier, out, LB_TO_S16, scratch, begin, end))
