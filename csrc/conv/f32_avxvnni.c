#include "linear/dot4/dot4_avxvnni.h"
#include "base/product_kernel.h"

lb_conv_s8_f32_fn lb_conv_s8_f32__avxvnni;

LB_PRODUCT_KERNEL(conv_s8_f32, avxvnni, float, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_F32, scratch, begin, end))
