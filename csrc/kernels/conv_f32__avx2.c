#include "lb_f32_avx2.h"

#include "lb_conv_f32_simd.h"
