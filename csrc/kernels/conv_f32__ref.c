#include "lb_conv_f32.h"
#include "lb_float.h"

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
