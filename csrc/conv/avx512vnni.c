#include "linear/dot4/dot4_avx512vnni.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__avx512vnni;

LB_PRODUCT_KERNEL(conv_s8, avx512vnni, int8_t, lb_dot4_conv(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end))
