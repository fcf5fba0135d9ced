#include "lb_f32_avx512.h"

#include "lb_max_pool_f32_simd.h"
