#include "int4/w4_conv_avx2.h"
#include "base/product_kernel.h"

lb_conv_w4_s8_s16_fn lb_conv_w4_s8_s16__avx2;

LB_PRODUCT_KERNEL(conv_w4_s8_s16, avx2, int16_t, lb_w4_conv(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end))
