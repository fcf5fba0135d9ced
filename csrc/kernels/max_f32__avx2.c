#include "lb_binary_f32_avx2.h"

static inline __m256 of(__m256 a, __m256 b) {
    return lb_max_ps(a, b);
}

lb_max_f32_fn lb_max_f32__avx2;

LB_BINARY_F32(max_f32)
