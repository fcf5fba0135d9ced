#include "linear/dot4/dot4_avx512vnni.h"
#include "base/product_kernel.h"

lb_linear_s8_f32_fn lb_linear_s8_f32__avx512vnni;

LB_PRODUCT_KERNEL(linear_s8_f32, avx512vnni, float, lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_F32, scratch, begin, end))
