#include "lb.h"
#include "base/f32_avx2.h"

lb_linear_f32_fn lb_linear_f32__avx2;

#include "linear/linear_f32_simd.h"
