#include "lb.h"

#include <immintrin.h>
#include <stddef.h>

lb_scale_rows_f32_fn lb_scale_rows_f32__avx2;

void lb_scale_rows_f32__avx2(const lb_scale_rows_f32_params *p, const float *acc, const float *x_scales, const float *scales,
                             const float *bias, float *out, int32_t begin, int32_t end) {
    const __m256 zero = _mm256_setzero_ps();
    for (int32_t row = begin; row < end; row++) {
        const float *from = acc + (ptrdiff_t)row * p->n;
        float *to = out + (ptrdiff_t)row * p->n;
        const __m256 x = _mm256_set1_ps(x_scales[row]);
        int32_t j = 0;
        for (; j + 8 <= p->n; j += 8) {
            const __m256 scale = _mm256_mul_ps(x, _mm256_loadu_ps(scales + j));
            const __m256 t = _mm256_add_ps(zero, _mm256_mul_ps(_mm256_loadu_ps(from + j), scale));
            _mm256_storeu_ps(to + j, _mm256_add_ps(t, _mm256_loadu_ps(bias + j)));
        }
        for (; j < p->n; j++)
            to[j] = (0.0f + from[j] * (x_scales[row] * scales[j])) + bias[j];
    }
}
