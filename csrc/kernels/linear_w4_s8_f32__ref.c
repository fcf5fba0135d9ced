#include "lb_numerics.h"
#include "lb_w4.h"

lb_linear_w4_s8_f32_fn lb_linear_w4_s8_f32__ref;

void lb_linear_w4_s8_f32__ref(const lb_linear_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                              const float *multiplier, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int32_t acc = lb_w4_acc(p, x, w, bias, i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = lb_f32_mul(lb_f32_from_s32(acc), multiplier[j]);
            }
    }
}
