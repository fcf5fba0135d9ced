#include "lb_binary_f32_avx2.h"

static inline __m256 of(__m256 a, __m256 b) {
    return lb_min_ps(a, b);
}

lb_min_f32_fn lb_min_f32__avx2;

LB_BINARY_F32(min_f32)
