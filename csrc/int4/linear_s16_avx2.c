#include "int4/w4_product_avx2.h"
#include "base/product_kernel.h"

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__avx2;

LB_PRODUCT_KERNEL(linear_w4_s8_s16, avx2, int16_t, lb_w4_linear_channels(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end))
