#include "lb.h"
#include "base/scalar_f32.h"

#include <stddef.h>

lb_linear_f32_fn lb_linear_f32__ref;

void lb_linear_f32__ref(const lb_linear_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                        int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t across = (p->n + p->block_columns - 1) / p->block_columns;
    for (int32_t item = begin; item < end; item++) {
        const int32_t top = item / across * p->block_rows, left = item % across * p->block_columns;
        const int32_t bottom = p->rows - top < p->block_rows ? p->rows : top + p->block_rows;
        const int32_t right = p->n - left < p->block_columns ? p->n : left + p->block_columns;
        for (int32_t i = top; i < bottom; i++)
            for (int32_t j = left; j < right; j++) {
                const float *row = x + (ptrdiff_t)i * p->k, *column = (const float *)w + (ptrdiff_t)j * p->k;
                float sum = 0.0f;
                for (int32_t k = 0; k < p->k; k++)
                    sum += row[k] * column[k];
                out[(ptrdiff_t)i * p->out_stride + j] = lb_clampf(sum + bias[j], p->lo, p->hi);
            }
    }
}
