#include "lb_linear_s16.h"
#include "lb_numerics.h"

lb_linear_s16_f32_fn lb_linear_s16_f32__ref;

void lb_linear_s16_f32__ref(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                            const float *multiplier, float *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int64_t acc = lb_dot_s16(p, x, w, bias[j], i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = lb_f32_mul(lb_f32_from_s64(acc), multiplier[j]);
            }
    }
}
