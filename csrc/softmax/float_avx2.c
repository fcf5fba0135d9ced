#include "lb.h"
#include "base/f32_avx2.h"

lb_softmax_f32_fn lb_softmax_f32__avx2;

#include "softmax/softmax_f32_simd.h"
