#include "lb.h"
#include "lb_numerics.h"
#include "lb_put_avx2.h"

lb_quantize_f32_s16_fn lb_quantize_f32_s16__avx2;

void lb_quantize_f32_s16__avx2(const lb_quantize_f32_s16_params *p, const float *x, int16_t *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(2, p->zero_point, p->lo, p->hi);
    const __m256 scale = _mm256_set1_ps(p->scale);
    int32_t i = begin;
    for (; i <= end - 8; i += 8) {
        const __m256 v = _mm256_div_ps(_mm256_loadu_ps(x + i), scale);
        lb_put8(out, i, v, 8, &target);
    }
    for (; i < end; i++)
        out[i] = (int16_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}
