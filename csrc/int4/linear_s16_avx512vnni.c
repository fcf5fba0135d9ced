#include "linear/dot4/dot4_avx512vnni.h"

#include "int4/w4_product_avx2.h"
#include "base/product_kernel.h"

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__avx512vnni;

LB_PRODUCT_KERNEL(linear_w4_s8_s16, avx512vnni, int16_t,
                  lb_w4_linear_channels(p, LB_TO_S16, x, w, bias, multiplier, out, scratch, begin, end))
