#include "lb_f32_avx2.h"

#include "lb_matmul_f32_simd.h"
