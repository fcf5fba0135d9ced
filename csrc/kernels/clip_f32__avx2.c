#include "lb_f32_avx2.h"

#include "lb_clip_f32_simd.h"
