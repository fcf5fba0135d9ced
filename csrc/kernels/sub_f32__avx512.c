#include "lb_f32_avx512.h"

#include "lb_binary_f32_simd.h"

static inline lb_v of(lb_v a, lb_v b) {
    return lb_v_sub(a, b);
}

lb_sub_f32_fn lb_sub_f32__avx512;

LB_BINARY_F32(sub_f32)
