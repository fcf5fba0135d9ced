#include "lb_binary_f32.h"

static inline float of(float a, float b) {
    return a * b;
}

lb_mul_f32_fn lb_mul_f32__ref;

LB_BINARY_F32(mul_f32)
