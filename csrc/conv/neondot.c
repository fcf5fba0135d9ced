#include "linear/dot4/dot4_neondot.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__neondot;

LB_PRODUCT_KERNEL(conv_s8, neondot, int8_t, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end))

lb_conv_s8_f32_fn lb_conv_s8_f32__neondot;

LB_PRODUCT_KERNEL(conv_s8_f32, neondot, float, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_F32, scratch, begin, end))

lb_conv_s8_s16_fn lb_conv_s8_s16__neondot;

LB_PRODUCT_KERNEL(conv_s8_s16, neondot, int16_t, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_S16, scratch, begin, end))
