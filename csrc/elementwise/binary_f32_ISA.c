/* ISA: avx2 avx512 */
#include "base/f32_ISA.h"

#include "elementwise/binary_f32_simd.h"

lb_add_f32_fn lb_add_f32__ISA;

LB_BINARY_F32(add_f32, lb_v_add(a, b))

lb_sub_f32_fn lb_sub_f32__ISA;

LB_BINARY_F32(sub_f32, lb_v_sub(a, b))

lb_mul_f32_fn lb_mul_f32__ISA;

LB_BINARY_F32(mul_f32, lb_v_mul(a, b))

lb_div_f32_fn lb_div_f32__ISA;

LB_BINARY_F32(div_f32, lb_v_div(a, b))

lb_max_f32_fn lb_max_f32__ISA;

LB_BINARY_F32(max_f32, LB_V(max)(a, b))

lb_min_f32_fn lb_min_f32__ISA;

LB_BINARY_F32(min_f32, LB_V(min)(a, b))

lb_prelu_f32_fn lb_prelu_f32__ISA;

LB_BINARY_F32(prelu_f32, LB_V(leaky_relu)(a, b))

lb_clip_f32_fn lb_clip_f32__ISA;

#include "elementwise/clip_f32_simd.h"
