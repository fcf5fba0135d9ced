#include "lb_f32_avx2.h"

#include "lb_attention_f32_simd.h"
