#include "lb.h"
#include "base/scalar_f32.h"
#include "int4/w4.h"

#include <stddef.h>

lb_linear_w4_f32_fn lb_linear_w4_f32__ref;

/* A segment is summed with its integers and scaled once: as many multiplications as linear_f32 has, and one more for each segment. */
void lb_linear_w4_f32__ref(const lb_linear_w4_f32_params *p, const float *x, const uint8_t *w, const float *scales, const float *bias,
                           float *out, int32_t begin, int32_t end) {
    const int32_t segments = lb_segments(p->k, p->segment);
    for (int32_t i = begin; i < end; i++)
        for (int32_t j = 0; j < p->n; j++) {
            const float *row = x + (ptrdiff_t)i * p->k;
            const uint8_t *weights = w + j * lb_w4_row_bytes(p->k);
            float sum = 0.0f;
            for (int32_t s = 0; s < segments; s++) {
                const int32_t first = s * p->segment, last = first + lb_segment_length(p->k, p->segment, s);
                float part = 0.0f;
                for (int32_t k = first; k < last; k++)
                    part += row[k] * (float)lb_w4_at(weights, k);
                sum += part * scales[(ptrdiff_t)j * segments + s];
            }
            out[(ptrdiff_t)i * p->n + j] = lb_clampf(sum + bias[j], p->lo, p->hi);
        }
}
