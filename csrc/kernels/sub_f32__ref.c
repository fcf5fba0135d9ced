#include "lb_binary_f32.h"

static inline float of(float a, float b) {
    return a - b;
}

lb_sub_f32_fn lb_sub_f32__ref;

LB_BINARY_F32(sub_f32)
