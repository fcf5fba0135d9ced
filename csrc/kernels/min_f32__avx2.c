#include "lb_f32_avx2.h"

#include "lb_binary_f32_simd.h"

static inline lb_v of(lb_v a, lb_v b) {
    return LB_V(min)(a, b);
}

lb_min_f32_fn lb_min_f32__avx2;

LB_BINARY_F32(min_f32)
