#include "linear/dot4/dot4_avx512vnni.h"
#include "base/product_kernel.h"

lb_linear_s8_s16_fn lb_linear_s8_s16__avx512vnni;

LB_PRODUCT_KERNEL(linear_s8_s16, avx512vnni, int16_t, lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S16, scratch, begin, end))
