#include "linear/dot4/dot4_avxvnni.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__avxvnni;

LB_PRODUCT_KERNEL(conv_s8, avxvnni, int8_t, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end))
