#include "lb.h"
#include "conv/conv_f32.h"
#include "base/scalar_f32.h"

#include <stddef.h>

lb_conv_f32_fn lb_conv_f32__ref;

static float sum_at(const lb_conv_f32_params *p, const float *image, const float *w, int32_t top, int32_t left, int32_t depth) {
    float sum = 0.0f;
    for (int32_t i = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++, w += depth) {
            const int32_t row = top + i * p->dilation_h, column = left + j * p->dilation_w;
            if (row < 0 || row >= p->in_h || column < 0 || column >= p->in_w)
                continue;
            const float *from = image + ((ptrdiff_t)row * p->in_w + column) * p->in_c;
            for (int32_t c = 0; c < depth; c++)
                sum += from[c] * w[c];
        }
    return sum;
}

void lb_conv_f32__ref(const lb_conv_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                      int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups, n = p->out_c / p->groups;
    const ptrdiff_t k = (ptrdiff_t)p->kernel_h * p->kernel_w * depth;
    for (int32_t item = begin; item < end; item++) {
        const lb_conv_f32_item b = lb_conv_f32_at(p, item);
        for (int32_t i = b.first; i < b.last; i++) {
            const int32_t top = i % size / p->out_w * p->stride_h - p->pad_h, left = i % p->out_w * p->stride_w - p->pad_w;
            const float *image = x + (ptrdiff_t)(i / size) * p->in_h * p->in_w * p->in_c + (ptrdiff_t)b.group * depth;
            for (int32_t j = b.group * n + b.left; j < b.group * n + b.right; j++)
                out[(ptrdiff_t)i * p->out_stride + j] =
                    lb_clampf(sum_at(p, image, (const float *)w + j * k, top, left, depth) + bias[j], p->lo, p->hi);
        }
    }
}

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
