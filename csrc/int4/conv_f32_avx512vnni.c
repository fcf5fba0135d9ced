#include "linear/dot4/dot4_avx512vnni.h"

#include "int4/w4_conv_avx2.h"
#include "base/product_kernel.h"

lb_conv_w4_s8_f32_fn lb_conv_w4_s8_f32__avx512vnni;

LB_PRODUCT_KERNEL(conv_w4_s8_f32, avx512vnni, float, lb_w4_conv(p, LB_TO_F32, x, w, bias, multiplier, out, scratch, begin, end))
