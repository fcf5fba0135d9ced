#include "lb.h"
#include "base/f32_avx512.h"

lb_softmax_f32_fn lb_softmax_f32__avx512;

#include "softmax/softmax_f32_simd.h"
