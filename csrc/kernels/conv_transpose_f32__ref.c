#include "lb.h"
#include "lb_float.h"

#include <stddef.h>

lb_conv_transpose_f32_fn lb_conv_transpose_f32__ref;

/* The input row (or column) that tap i meets in row `at` of the output; -1 for none. */
static int32_t source(int32_t at, int32_t pad, int32_t i, int32_t dilation, int32_t stride, int32_t size) {
    const int32_t moved = at + pad - i * dilation;
    return moved >= 0 && moved % stride == 0 && moved / stride < size ? moved / stride : -1;
}

void lb_conv_transpose_f32__ref(const lb_conv_transpose_f32_params *p, const float *x, const void *w, const float *bias, float *out,
                                void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t depth = p->in_c / p->groups, n = p->out_c / p->groups;
    for (int32_t item = begin; item < end; item++) {
        const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->in_c;
        for (int32_t o = 0; o < p->out_w; o++)
            for (int32_t c = 0; c < p->out_c; c++) {
                float sum = 0.0f;
                const float *tap = (const float *)w + (ptrdiff_t)c * p->kernel_h * p->kernel_w * depth;
                for (int32_t i = 0; i < p->kernel_h; i++)
                    for (int32_t j = 0; j < p->kernel_w; j++, tap += depth) {
                        const int32_t row = source(item % p->out_h, p->pad_h, i, p->dilation_h, p->stride_h, p->in_h);
                        const int32_t column = source(o, p->pad_w, j, p->dilation_w, p->stride_w, p->in_w);
                        const ptrdiff_t from = ((ptrdiff_t)row * p->in_w + column) * p->in_c + (ptrdiff_t)(c / n) * depth;
                        for (int32_t d = 0; row >= 0 && column >= 0 && d < depth; d++)
                            sum += image[from + d] * tap[d];
                    }
                out[((ptrdiff_t)item * p->out_w + o) * p->out_c + c] = lb_clampf(sum + bias[c], p->lo, p->hi);
            }
    }
}
