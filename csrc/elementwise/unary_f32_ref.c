/* Functions of one float: `of` is an expression of v, and of alpha and beta where it has them. */
#include "lb.h"
#include "base/math_f32.h"

#define LB_UNARY_F32(contract, of)                                                                                                         \
    void lb_##contract##__ref(const lb_##contract##_params *p, const float *x, float *out, int32_t begin, int32_t end) {                   \
        const float alpha = p->alpha, beta = p->beta;                                                                                      \
        (void)alpha, (void)beta;                                                                                                           \
        for (int32_t i = begin; i < end; i++) {                                                                                            \
            const float v = x[i];                                                                                                          \
            out[i] = of;                                                                                                                   \
        }                                                                                                                                  \
    }

lb_abs_f32_fn lb_abs_f32__ref;

LB_UNARY_F32(abs_f32, lb_absf(v))

lb_ceil_f32_fn lb_ceil_f32__ref;

LB_UNARY_F32(ceil_f32, lb_ceilf(v))

lb_elu_f32_fn lb_elu_f32__ref;

LB_UNARY_F32(elu_f32, lb_eluf(v, alpha))

lb_erf_f32_fn lb_erf_f32__ref;

LB_UNARY_F32(erf_f32, lb_erff(v))

lb_exp_f32_fn lb_exp_f32__ref;

LB_UNARY_F32(exp_f32, lb_expf(v))

lb_floor_f32_fn lb_floor_f32__ref;

LB_UNARY_F32(floor_f32, lb_floorf(v))

lb_gelu_f32_fn lb_gelu_f32__ref;

LB_UNARY_F32(gelu_f32, lb_geluf(v))

lb_gelu_tanh_f32_fn lb_gelu_tanh_f32__ref;

LB_UNARY_F32(gelu_tanh_f32, lb_gelu_tanhf(v))

lb_hardsigmoid_f32_fn lb_hardsigmoid_f32__ref;

LB_UNARY_F32(hardsigmoid_f32, lb_hardsigmoidf(v, alpha, beta))

lb_hardswish_f32_fn lb_hardswish_f32__ref;

LB_UNARY_F32(hardswish_f32, lb_hardswishf(v))

lb_leaky_relu_f32_fn lb_leaky_relu_f32__ref;

LB_UNARY_F32(leaky_relu_f32, lb_leaky_reluf(v, alpha))

lb_log_f32_fn lb_log_f32__ref;

LB_UNARY_F32(log_f32, lb_logf(v))

lb_mish_f32_fn lb_mish_f32__ref;

LB_UNARY_F32(mish_f32, lb_mishf(v))

lb_neg_f32_fn lb_neg_f32__ref;

LB_UNARY_F32(neg_f32, -v)

lb_reciprocal_f32_fn lb_reciprocal_f32__ref;

LB_UNARY_F32(reciprocal_f32, 1.0f / v)

lb_round_f32_fn lb_round_f32__ref;

LB_UNARY_F32(round_f32, lb_roundf(v))

lb_sigmoid_f32_fn lb_sigmoid_f32__ref;

LB_UNARY_F32(sigmoid_f32, lb_sigmoidf(v))

lb_silu_f32_fn lb_silu_f32__ref;

LB_UNARY_F32(silu_f32, lb_siluf(v))

lb_softplus_f32_fn lb_softplus_f32__ref;

LB_UNARY_F32(softplus_f32, lb_softplusf(v))

lb_sqrt_f32_fn lb_sqrt_f32__ref;

LB_UNARY_F32(sqrt_f32, lb_sqrtf(v))

lb_tanh_f32_fn lb_tanh_f32__ref;

LB_UNARY_F32(tanh_f32, lb_tanhf(v))
