#include "lb_f32_avx2.h"

#include "lb_binary_f32_simd.h"

static inline lb_v of(lb_v a, lb_v b) {
    return lb_v_add(a, b);
}

lb_add_f32_fn lb_add_f32__avx2;

LB_BINARY_F32(add_f32)
