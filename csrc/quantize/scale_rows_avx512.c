#include "lb.h"
#include "base/avx512.h"

#include <stddef.h>

lb_scale_rows_f32_fn lb_scale_rows_f32__avx512;

void lb_scale_rows_f32__avx512(const lb_scale_rows_f32_params *p, const float *acc, const float *x_scales, const float *scales,
                               const float *bias, float *out, int32_t begin, int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        const float *from = acc + (ptrdiff_t)row * p->n;
        float *to = out + (ptrdiff_t)row * p->n;
        const __m512 x = _mm512_set1_ps(x_scales[row]);
        for (int32_t j = 0; j < p->n; j += 16) {
            const __mmask16 lanes = lb_first16(p->n - j);
            const __m512 scale = _mm512_mul_ps(x, _mm512_maskz_loadu_ps(lanes, scales + j));
            const __m512 t = _mm512_add_ps(_mm512_setzero_ps(), _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, from + j), scale));
            _mm512_mask_storeu_ps(to + j, lanes, _mm512_add_ps(t, _mm512_maskz_loadu_ps(lanes, bias + j)));
        }
    }
}
