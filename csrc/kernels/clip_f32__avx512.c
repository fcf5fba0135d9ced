#include "lb_f32_avx512.h"

#include "lb_clip_f32_simd.h"
