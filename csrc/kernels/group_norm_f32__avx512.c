#include "lb_f32_avx512.h"

#include "lb_group_norm_f32_simd.h"
