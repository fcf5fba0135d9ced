#include "lb_f32_avx2.h"

#include "lb_max_pool_f32_simd.h"
