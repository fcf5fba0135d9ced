#include "lb_binary_f32.h"

static inline float of(float a, float b) {
    return lb_minf(a, b);
}

lb_min_f32_fn lb_min_f32__ref;

LB_BINARY_F32(min_f32)
