#include "lb.h"

#include <immintrin.h>

lb_rotary_fn lb_rotary__avx2;

/* Pairs in the two halves of the features, eight at once. */
static void turn_halves(const lb_rotary_params *p, const float *x, const float *cos, const float *sin, float *out) {
    const int32_t half = p->dims / 2;
    int32_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i), c = _mm256_loadu_ps(cos + i),
                     s = _mm256_loadu_ps(sin + i);
        _mm256_storeu_ps(out + i, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(out + half + i, _mm256_add_ps(_mm256_mul_ps(b, c), _mm256_mul_ps(a, s)));
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[half + i];
        out[i] = a * cos[i] - b * sin[i], out[half + i] = b * cos[i] + a * sin[i];
    }
}

/* Pairs of neighbours, four at once. */
static void turn_neighbours(const lb_rotary_params *p, const float *x, const float *cos, const float *sin, float *out) {
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    int32_t i = 0;
    for (; i + 8 <= p->dims; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i), c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + i / 2)), twice);
        const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + i / 2)), twice);
        _mm256_storeu_ps(out + i, _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(_mm256_permute_ps(v, 0xB1), s)));
    }
    for (; i < p->dims; i += 2) {
        const float a = x[i], b = x[i + 1];
        out[i] = a * cos[i / 2] - b * sin[i / 2], out[i + 1] = b * cos[i / 2] + a * sin[i / 2];
    }
}

void lb_rotary__avx2(const lb_rotary_params *p, const float *x, const float *cos, const float *sin, float *out, int32_t begin,
                     int32_t end) {
    const ptrdiff_t half = p->dims / 2;
    for (ptrdiff_t row = begin; row < end; row++)
        for (int32_t h = 0; h < p->heads; h++) {
            const ptrdiff_t at = (row * p->heads + h) * p->depth;
            if (p->neighbours)
                turn_neighbours(p, x + at, cos + row * half, sin + row * half, out + at);
            else
                turn_halves(p, x + at, cos + row * half, sin + row * half, out + at);
            for (int32_t i = p->dims; i < p->depth; i++)
                out[at + i] = x[at + i];
        }
}
