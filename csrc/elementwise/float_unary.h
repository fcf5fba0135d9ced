/* Functions of floats, one element at a time. lb.h has the rules of every contract, float_product.h those of floats. */
#ifndef LB_FLOAT_UNARY_H
#define LB_FLOAT_UNARY_H

#include <stdint.h>

/* ---- out = f(x), in place. Item: an element. ------------------------------------------------------------------------------------------
 * Exact, one or more IEEE operations: abs, neg, reciprocal (1 / x), sqrt, floor, ceil, round (half to even),
 *   leaky_relu (x < 0: x * alpha), hardsigmoid (clamp(x * alpha + beta, 0, 1)), hardswish (x * clamp(x + 3, 0, 6) / 6).
 * Within 3 units in the last place: exp, log, erf, tanh, sigmoid; and the steps of these formulas, each rounded:
 *   silu x * sigmoid(x), gelu 0.5x * (1 + erf(x * sqrt(1/2))), gelu_tanh 0.5x * (1 + tanh(sqrt(2/pi) * (x + 0.044715x^3))),
 *   softplus max(x, 0) + log(1 + exp(-|x|)), mish x * tanh(softplus(x)), elu x or, below 0, alpha * (exp(x) - 1).
 * alpha and beta are 0 where a function has none. */
typedef struct {
    float alpha;
    float beta;
} lb_abs_f32_params;

typedef lb_abs_f32_params lb_ceil_f32_params;
typedef lb_abs_f32_params lb_elu_f32_params;
typedef lb_abs_f32_params lb_erf_f32_params;
typedef lb_abs_f32_params lb_exp_f32_params;
typedef lb_abs_f32_params lb_floor_f32_params;
typedef lb_abs_f32_params lb_gelu_f32_params;
typedef lb_abs_f32_params lb_gelu_tanh_f32_params;
typedef lb_abs_f32_params lb_hardsigmoid_f32_params;
typedef lb_abs_f32_params lb_hardswish_f32_params;
typedef lb_abs_f32_params lb_leaky_relu_f32_params;
typedef lb_abs_f32_params lb_log_f32_params;
typedef lb_abs_f32_params lb_mish_f32_params;
typedef lb_abs_f32_params lb_neg_f32_params;
typedef lb_abs_f32_params lb_reciprocal_f32_params;
typedef lb_abs_f32_params lb_round_f32_params;
typedef lb_abs_f32_params lb_sigmoid_f32_params;
typedef lb_abs_f32_params lb_silu_f32_params;
typedef lb_abs_f32_params lb_softplus_f32_params;
typedef lb_abs_f32_params lb_sqrt_f32_params;
typedef lb_abs_f32_params lb_tanh_f32_params;

typedef void lb_abs_f32_fn(const lb_abs_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_ceil_f32_fn(const lb_ceil_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_elu_f32_fn(const lb_elu_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_erf_f32_fn(const lb_erf_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_exp_f32_fn(const lb_exp_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_floor_f32_fn(const lb_floor_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_gelu_f32_fn(const lb_gelu_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_gelu_tanh_f32_fn(const lb_gelu_tanh_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_hardsigmoid_f32_fn(const lb_hardsigmoid_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_hardswish_f32_fn(const lb_hardswish_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_leaky_relu_f32_fn(const lb_leaky_relu_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_log_f32_fn(const lb_log_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_mish_f32_fn(const lb_mish_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_neg_f32_fn(const lb_neg_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_reciprocal_f32_fn(const lb_reciprocal_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_round_f32_fn(const lb_round_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_sigmoid_f32_fn(const lb_sigmoid_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_silu_f32_fn(const lb_silu_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_softplus_f32_fn(const lb_softplus_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_sqrt_f32_fn(const lb_sqrt_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);
typedef void lb_tanh_f32_fn(const lb_tanh_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);

#endif
