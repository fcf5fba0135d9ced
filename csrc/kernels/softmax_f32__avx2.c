#include "lb.h"
#include "lb_math.h"
#include "lb_rows_avx2.h"

lb_softmax_f32_fn lb_softmax_f32__avx2;

static void row(const lb_softmax_f32_params *p, const float *x, float *out) {
    const float most = lb_row_max(x, p->n);
    if (!p->logarithm) {
        const float sum = lb_row_exp(x, most, p->n, out);
        lb_row_scale(out, 1.0f / sum, p->n);
        return;
    }
    const __m256 by = _mm256_set1_ps(most);
    __m256 sum = _mm256_setzero_ps();
    for (int32_t i = 0; i < p->n; i += 8) {
        const __m256 v = p->n - i >= 8 ? _mm256_loadu_ps(x + i) : lb_last_ps(x + i, p->n - i, -LB_INFINITY);
        sum = _mm256_add_ps(sum, lb_exp_ps(_mm256_sub_ps(v, by)));
    }
    const float log = lb_logf(lb_sum_ps(sum));
    for (int32_t i = 0; i < p->n; i++)
        out[i] = x[i] - most - log;
}

/* 8 columns, or the n < 8 last ones. */
static void columns(const lb_softmax_f32_params *p, const float *x, float *out, int32_t n) {
    const ptrdiff_t step = p->inner;
    __m256 most = _mm256_set1_ps(-LB_INFINITY), sum = _mm256_setzero_ps();
    for (int32_t i = 0; i < p->n; i++)
        most = lb_max_ps(most, n == 8 ? _mm256_loadu_ps(x + i * step) : lb_last_ps(x + i * step, n, 0.0f));
    for (int32_t i = 0; i < p->n; i++) {
        const __m256 v = _mm256_sub_ps(n == 8 ? _mm256_loadu_ps(x + i * step) : lb_last_ps(x + i * step, n, 0.0f), most), e = lb_exp_ps(v);
        sum = _mm256_add_ps(sum, e);
        lb_store_last_ps(out + i * step, p->logarithm ? v : e, n);
    }
    const __m256 by = p->logarithm ? lb_log_ps(sum) : _mm256_div_ps(_mm256_set1_ps(1.0f), sum);
    for (int32_t i = 0; i < p->n; i++) {
        const __m256 v = lb_last_ps(out + i * step, n, 0.0f);
        lb_store_last_ps(out + i * step, p->logarithm ? _mm256_sub_ps(v, by) : _mm256_mul_ps(v, by), n);
    }
}

void lb_softmax_f32__avx2(const lb_softmax_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++) {
        const ptrdiff_t at = (ptrdiff_t)i * p->n * p->inner;
        if (p->inner == 1)
            row(p, x + at, out + at);
        else
            for (int32_t j = 0; j < p->inner; j += 8)
                columns(p, x + at + j, out + at + j, p->inner - j < 8 ? p->inner - j : 8);
    }
}
