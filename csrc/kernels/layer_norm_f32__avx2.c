#include "lb.h"
#include "lb_math.h"
#include "lb_rows_avx2.h"

lb_layer_norm_f32_fn lb_layer_norm_f32__avx2;

void lb_layer_norm_f32__avx2(const lb_layer_norm_f32_params *p, const float *x, const float *scale, const float *bias, float *out,
                             int32_t begin, int32_t end) {
    for (int32_t r = begin; r < end; r++) {
        const float *row = x + (ptrdiff_t)r * p->n;
        float *to = out + (ptrdiff_t)r * p->n;
        const float mean = p->centered ? lb_row_sum(row, 0.0f, 0, p->n) / (float)p->n : 0.0f;
        const float inverse = 1.0f / lb_sqrtf(lb_row_sum(row, mean, 1, p->n) / (float)p->n + p->eps);
        const __m256 m = _mm256_set1_ps(mean), f = _mm256_set1_ps(inverse);
        int32_t i = 0;
        for (; i <= p->n - 8; i += 8) {
            const __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(row + i), m), f);
            _mm256_storeu_ps(to + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(scale + i), _mm256_loadu_ps(bias + i)));
        }
        for (; i < p->n; i++)
            to[i] = (row[i] - mean) * inverse * scale[i] + bias[i];
    }
}
