#include "lb_f32_avx2.h"

#include "lb_dwconv_f32_simd.h"
