#include "conv/conv_avx2.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__avx2;

LB_PRODUCT_KERNEL(conv_s8, avx2, int8_t, lb_conv_avx2(p, x, w, bias, multiplier, out, LB_TO_S8, scratch, begin, end))

lb_conv_s8_f32_fn lb_conv_s8_f32__avx2;

LB_PRODUCT_KERNEL(conv_s8_f32, avx2, float, lb_conv_avx2(p, x, w, bias, multiplier, out, LB_TO_F32, scratch, begin, end))

lb_conv_s8_s16_fn lb_conv_s8_s16__avx2;

LB_PRODUCT_KERNEL(conv_s8_s16, avx2, int16_t, lb_conv_avx2(p, x, w, bias, multiplier, out, LB_TO_S16, scratch, begin, end))
