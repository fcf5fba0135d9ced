#include "int4/w4_product_avx2.h"
#include "base/product_kernel.h"

lb_linear_w4_s8_fn lb_linear_w4_s8__avx2;

LB_PRODUCT_KERNEL(linear_w4_s8, avx2, int8_t, lb_w4_linear_channels(p, LB_TO_S8, x, w, bias, multiplier, out, scratch, begin, end))
