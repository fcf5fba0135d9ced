#include "linear/dot4/dot4_neon.h"
#include "base/product_kernel.h"

lb_linear_s8_fn lb_linear_s8__neon;

LB_PRODUCT_KERNEL(linear_s8, neon, int8_t, lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end))

lb_linear_s8_f32_fn lb_linear_s8_f32__neon;

LB_PRODUCT_KERNEL(linear_s8_f32, neon, float, lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_F32, scratch, begin, end))

lb_linear_s8_s16_fn lb_linear_s8_s16__neon;

LB_PRODUCT_KERNEL(linear_s8_s16, neon, int16_t, lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S16, scratch, begin, end))
