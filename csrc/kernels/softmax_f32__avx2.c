#include "lb_f32_avx2.h"

#include "lb_softmax_f32_simd.h"
