/* A row of floats at a time: its largest, its sums, exp of it. Every row in one order, wherever it stands. */
#ifndef LB_ROWS_AVX2_H
#define LB_ROWS_AVX2_H

#include "lb_math_avx2.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The last n < 8 elements, and `other` behind them. */
static inline __m256 lb_last_ps(const float *x, int32_t n, float other) {
    float last[8] = {other, other, other, other, other, other, other, other};
    memcpy(last, x, sizeof *x * (size_t)n);
    return _mm256_loadu_ps(last);
}

static inline void lb_store_last_ps(float *to, __m256 v, int32_t n) {
    float last[8];
    _mm256_storeu_ps(last, v);
    memcpy(to, last, sizeof *to * (size_t)n);
}

/* NaN if one is NaN, -inf of nothing. */
static inline float lb_row_max(const float *x, int32_t n) {
    __m256 most = _mm256_set1_ps(-LB_INFINITY);
    int32_t i = 0;
    for (; i <= n - 8; i += 8)
        most = lb_max_ps(most, _mm256_loadu_ps(x + i));
    if (i < n)
        most = lb_max_ps(most, lb_last_ps(x + i, n - i, -LB_INFINITY));
    most = lb_max_ps(most, _mm256_permute2f128_ps(most, most, 1));
    most = lb_max_ps(most, _mm256_permute_ps(most, 0x4E));
    most = lb_max_ps(most, _mm256_permute_ps(most, 0xB1));
    return _mm256_cvtss_f32(most);
}

/* to = exp(x - shift), and the sum of that. */
static inline float lb_row_exp(const float *x, float shift, int32_t n, float *to) {
    const __m256 by = _mm256_set1_ps(shift);
    __m256 sum = _mm256_setzero_ps();
    int32_t i = 0;
    for (; i <= n - 8; i += 8) {
        const __m256 e = lb_exp_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), by));
        _mm256_storeu_ps(to + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    if (i < n) {
        const __m256 e = lb_exp_ps(_mm256_sub_ps(lb_last_ps(x + i, n - i, -LB_INFINITY), by));
        lb_store_last_ps(to + i, e, n - i);
        sum = _mm256_add_ps(sum, e);
    }
    return lb_sum_ps(sum);
}

static inline void lb_row_scale(float *x, float by, int32_t n) {
    const __m256 factor = _mm256_set1_ps(by);
    int32_t i = 0;
    for (; i <= n - 8; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
    for (; i < n; i++)
        x[i] *= by;
}

/* The sum of x - shift, or of its squares. */
__attribute__((always_inline)) static inline float lb_row_sum(const float *x, float shift, const int squared, int32_t n) {
    const __m256 by = _mm256_set1_ps(shift);
    __m256 s[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int32_t i = 0;
    for (; i <= n - 32; i += 32)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const __m256 v = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8 * c), by);
            s[c] = squared ? _mm256_fmadd_ps(v, v, s[c]) : _mm256_add_ps(v, s[c]);
        }
    for (; i < n; i += 8) {
        const __m256 v = _mm256_sub_ps(n - i >= 8 ? _mm256_loadu_ps(x + i) : lb_last_ps(x + i, n - i, shift), by);
        s[0] = squared ? _mm256_fmadd_ps(v, v, s[0]) : _mm256_add_ps(v, s[0]);
    }
    return lb_sum_ps(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
}

#endif
