#include "lb_binary_f32.h"

static inline float of(float a, float b) {
    return lb_maxf(a, b);
}

lb_max_f32_fn lb_max_f32__ref;

LB_BINARY_F32(max_f32)
