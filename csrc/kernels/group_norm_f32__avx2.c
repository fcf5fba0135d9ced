#include "lb.h"
#include "lb_math.h"
#include "lb_rows_avx2.h"

lb_group_norm_f32_fn lb_group_norm_f32__avx2;

void lb_group_norm_f32__avx2(const lb_group_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                             int32_t begin, int32_t end) {
    const int32_t n = p->channels * p->spatial;
    for (int32_t r = begin; r < end; r++) {
        const float *row = x + (ptrdiff_t)r * n;
        const float mean = lb_row_sum(row, 0.0f, 0, n) / (float)n;
        const float inverse = 1.0f / lb_sqrtf(lb_row_sum(row, mean, 1, n) / (float)n + p->eps);
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t channel = r % p->groups * p->channels + c;
            const float *from = row + (ptrdiff_t)c * p->spatial;
            const float factor = inverse * scale[channel];
            float *to = out + (ptrdiff_t)r * n + (ptrdiff_t)c * p->spatial;
            const __m256 m = _mm256_set1_ps(mean), f = _mm256_set1_ps(factor), b = _mm256_set1_ps(bias[channel]);
            int32_t i = 0;
            for (; i <= p->spatial - 8; i += 8)
                _mm256_storeu_ps(to + i, _mm256_fmadd_ps(_mm256_sub_ps(_mm256_loadu_ps(from + i), m), f, b));
            for (; i < p->spatial; i++)
                to[i] = (from[i] - mean) * factor + bias[channel];
        }
    }
}
