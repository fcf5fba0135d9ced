#include "lb_binary_f32.h"

static inline float of(float a, float b) {
    return a >= 0.0f ? a : a * b;
}

lb_prelu_f32_fn lb_prelu_f32__ref;

LB_BINARY_F32(prelu_f32)
