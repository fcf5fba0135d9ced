/* ISA: avx2 avx512 */
#include "base/f32_ISA.h"

#include "elementwise/unary_f32_simd.h"

lb_abs_f32_fn lb_abs_f32__ISA;

LB_UNARY_F32(abs_f32, LB_V(abs)(v))

lb_ceil_f32_fn lb_ceil_f32__ISA;

LB_UNARY_F32(ceil_f32, LB_V(ceil)(v))

lb_elu_f32_fn lb_elu_f32__ISA;

LB_UNARY_F32(elu_f32, LB_V(elu)(v, alpha))

lb_erf_f32_fn lb_erf_f32__ISA;

LB_UNARY_F32(erf_f32, LB_V(erf)(v))

lb_exp_f32_fn lb_exp_f32__ISA;

LB_UNARY_F32(exp_f32, LB_V(exp)(v))

lb_floor_f32_fn lb_floor_f32__ISA;

LB_UNARY_F32(floor_f32, LB_V(floor)(v))

lb_gelu_f32_fn lb_gelu_f32__ISA;

LB_UNARY_F32(gelu_f32, LB_V(gelu)(v))

lb_gelu_tanh_f32_fn lb_gelu_tanh_f32__ISA;

LB_UNARY_F32(gelu_tanh_f32, LB_V(gelu_tanh)(v))

lb_hardsigmoid_f32_fn lb_hardsigmoid_f32__ISA;

LB_UNARY_F32(hardsigmoid_f32, LB_V(hardsigmoid)(v, alpha, beta))

lb_hardswish_f32_fn lb_hardswish_f32__ISA;

LB_UNARY_F32(hardswish_f32, LB_V(hardswish)(v))

lb_leaky_relu_f32_fn lb_leaky_relu_f32__ISA;

LB_UNARY_F32(leaky_relu_f32, LB_V(leaky_relu)(v, alpha))

lb_log_f32_fn lb_log_f32__ISA;

LB_UNARY_F32(log_f32, LB_V(log)(v))

lb_mish_f32_fn lb_mish_f32__ISA;

LB_UNARY_F32(mish_f32, LB_V(mish)(v))

lb_neg_f32_fn lb_neg_f32__ISA;

LB_UNARY_F32(neg_f32, lb_v_neg(v))

lb_reciprocal_f32_fn lb_reciprocal_f32__ISA;

LB_UNARY_F32(reciprocal_f32, lb_v_div(lb_v_all(1.0f), v))

lb_round_f32_fn lb_round_f32__ISA;

LB_UNARY_F32(round_f32, LB_V(round)(v))

lb_sigmoid_f32_fn lb_sigmoid_f32__ISA;

LB_UNARY_F32(sigmoid_f32, LB_V(sigmoid)(v))

lb_silu_f32_fn lb_silu_f32__ISA;

LB_UNARY_F32(silu_f32, LB_V(silu)(v))

lb_softplus_f32_fn lb_softplus_f32__ISA;

LB_UNARY_F32(softplus_f32, LB_V(softplus)(v))

lb_sqrt_f32_fn lb_sqrt_f32__ISA;

LB_UNARY_F32(sqrt_f32, lb_v_sqrt(v))

lb_tanh_f32_fn lb_tanh_f32__ISA;

LB_UNARY_F32(tanh_f32, LB_V(tanh)(v))
