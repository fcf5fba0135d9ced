#include "conv/conv_armdsp.h"
#include "base/product_kernel.h"

lb_conv_s8_fn lb_conv_s8__armdsp;

LB_PRODUCT_KERNEL(conv_s8, armdsp, int8_t, lb_conv_armdsp(p, x, w, bias, multiplier, out, LB_TO_S8, scratch, begin, end))

lb_conv_s8_f32_fn lb_conv_s8_f32__armdsp;

LB_PRODUCT_KERNEL(conv_s8_f32, armdsp, lb_f32, lb_conv_armdsp(p, x, w, bias, multiplier, out, LB_TO_F32, scratch, begin, end))

lb_conv_s8_s16_fn lb_conv_s8_s16__armdsp;

LB_PRODUCT_KERNEL(conv_s8_s16, armdsp, int16_t, lb_conv_armdsp(p, x, w, bias, multiplier, out, LB_TO_S16, scratch, begin, end))
