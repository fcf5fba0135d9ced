#include "lb.h"
#include "base/f32_avx512.h"

lb_linear_f32_fn lb_linear_f32__avx512;

#include "linear/linear_f32_simd.h"
