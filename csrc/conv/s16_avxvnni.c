#include "linear/dot4/dot4_avxvnni.h"
#include "base/product_kernel.h"

lb_conv_s8_s16_fn lb_conv_s8_s16__avxvnni;

LB_PRODUCT_KERNEL(conv_s8_s16, avxvnni, int16_t, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_S16, scratch, begin, end))
