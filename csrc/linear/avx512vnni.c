#include "linear/dot4/dot4_avx512vnni.h"
#include "base/product_kernel.h"

lb_linear_s8_fn lb_linear_s8__avx512vnni;

LB_PRODUCT_KERNEL(linear_s8, avx512vnni, int8_t, lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end))
