#include "lb.h"
#include "lb_float.h"
#include "lb_math_avx2.h"

lb_clip_f32_fn lb_clip_f32__avx2;

void lb_clip_f32__avx2(const lb_clip_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    const __m256 lo = _mm256_set1_ps(p->lo), hi = _mm256_set1_ps(p->hi);
    int32_t i = begin;
    for (; i <= end - 8; i += 8)
        _mm256_storeu_ps(out + i, lb_clamp_ps(_mm256_loadu_ps(x + i), lo, hi));
    for (; i < end; i++)
        out[i] = lb_clampf(x[i], p->lo, p->hi);
}
