#include "lb_binary_f32.h"

static inline float of(float a, float b) {
    return a + b;
}

lb_add_f32_fn lb_add_f32__ref;

LB_BINARY_F32(add_f32)
