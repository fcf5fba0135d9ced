#include "lb_f32_avx2.h"

#include "lb_binary_f32_simd.h"

static inline lb_v of(lb_v a, lb_v b) {
    return lb_v_div(a, b);
}

lb_div_f32_fn lb_div_f32__avx2;

LB_BINARY_F32(div_f32)
