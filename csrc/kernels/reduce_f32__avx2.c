#include "lb.h"
#include "lb_float.h"
#include "lb_math.h"
#include "lb_math_avx2.h"

#include <stddef.h>

lb_reduce_f32_fn lb_reduce_f32__avx2;

enum { SUM, SQUARES, SIZES, MOST, LEAST, PRODUCT, LANES = 8, CHAINS = 4 };

__attribute__((always_inline)) static inline __m256 joined(const int kind, __m256 total, __m256 v) {
    switch (kind) {
    case SUM:
        return _mm256_add_ps(total, v);
    case SQUARES:
        return _mm256_fmadd_ps(v, v, total);
    case SIZES:
        return _mm256_add_ps(total, lb_abs_ps(v));
    case MOST:
        return lb_max_ps(total, v);
    case LEAST:
        return lb_min_ps(total, v);
    default:
        return _mm256_mul_ps(total, v);
    }
}

static float start_of(int kind) {
    return kind == MOST ? -LB_INFINITY : kind == LEAST ? LB_INFINITY : kind == PRODUCT ? 1.0f : 0.0f;
}

/* Two results made of the same kind of terms: |x| and squares are sums by then. */
__attribute__((always_inline)) static inline __m256 met(const int kind, __m256 a, __m256 b) {
    return joined(kind < MOST ? SUM : kind, a, b);
}

__attribute__((always_inline)) static inline float along(const int kind, const float *x, int32_t n) {
    const __m256 start = _mm256_set1_ps(start_of(kind));
    __m256 s[CHAINS] = {start, start, start, start};
    int32_t i = 0;
    for (; i <= n - LANES * CHAINS; i += LANES * CHAINS)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++)
            s[c] = joined(kind, s[c], _mm256_loadu_ps(x + i + LANES * c));
    for (; i <= n - LANES; i += LANES)
        s[0] = joined(kind, s[0], _mm256_loadu_ps(x + i));
    float lanes[LANES];
    _mm256_storeu_ps(lanes, met(kind, met(kind, s[0], s[1]), met(kind, s[2], s[3])));
    for (int32_t j = 0; i < n; i++, j = (j + 1) % LANES)
        lanes[j] = _mm256_cvtss_f32(joined(kind, _mm256_set1_ps(lanes[j]), _mm256_broadcast_ss(x + i)));
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++)
            lanes[j] = _mm256_cvtss_f32(met(kind, _mm256_set1_ps(lanes[j]), _mm256_set1_ps(lanes[j + width])));
    return lanes[0];
}

/* A chunk of rows at a time, as `ref`, so that errors do not grow with all of n. */
__attribute__((always_inline)) static inline __m256 across(const int kind, const float *x, ptrdiff_t step, int32_t n) {
    __m256 total = _mm256_set1_ps(start_of(kind));
    for (int32_t i = 0; i < n; i += 16) {
        __m256 part = _mm256_set1_ps(start_of(kind));
        for (int32_t j = i; j < i + 16 && j < n; j++)
            part = joined(kind, part, _mm256_loadu_ps(x + j * step));
        total = met(kind, total, part);
    }
    return total;
}

__attribute__((always_inline)) static inline void reduce(const int kind, const lb_reduce_f32_params *p, const float *x, float *out,
                                                         int32_t begin, int32_t end) {
    const float scale = kind < MOST ? p->scale : 1.0f;
    for (int32_t i = begin; i < end; i++) {
        const float *from = x + (ptrdiff_t)i * p->n * p->inner;
        float *to = out + (ptrdiff_t)i * p->inner;
        int32_t j = 0;
        if (p->inner == 1)
            to[j++] = along(kind, from, p->n) * scale;
        for (; j <= p->inner - LANES; j += LANES)
            _mm256_storeu_ps(to + j, _mm256_mul_ps(across(kind, from + j, p->inner, p->n), _mm256_set1_ps(scale)));
        for (; j < p->inner; j++) {
            __m256 v = _mm256_set1_ps(start_of(kind));
            for (int32_t r = 0; r < p->n; r += 16) {
                __m256 part = _mm256_set1_ps(start_of(kind));
                for (int32_t q = r; q < r + 16 && q < p->n; q++)
                    part = joined(kind, part, _mm256_broadcast_ss(from + (ptrdiff_t)q * p->inner + j));
                v = met(kind, v, part);
            }
            to[j] = _mm256_cvtss_f32(v) * scale;
        }
        for (j = 0; p->root && j < p->inner; j++)
            to[j] = lb_sqrtf(to[j]);
    }
}

void lb_reduce_f32__avx2(const lb_reduce_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    switch (p->kind) {
    case SUM:
        reduce(SUM, p, x, out, begin, end);
        break;
    case SQUARES:
        reduce(SQUARES, p, x, out, begin, end);
        break;
    case SIZES:
        reduce(SIZES, p, x, out, begin, end);
        break;
    case MOST:
        reduce(MOST, p, x, out, begin, end);
        break;
    case LEAST:
        reduce(LEAST, p, x, out, begin, end);
        break;
    default:
        reduce(PRODUCT, p, x, out, begin, end);
    }
}
