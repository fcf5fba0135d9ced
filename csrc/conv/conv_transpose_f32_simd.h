/* conv_transpose_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_CONV_TRANSPOSE_F32_SIMD_H
#define LB_CONV_TRANSPOSE_F32_SIMD_H

#include "lb.h"
#include "gemm/microkernel_f32.h"

#include <string.h>

/* How many taps i have i * dilation % stride == phase. */
static int32_t taps_of(int32_t kernel, int32_t dilation, int32_t stride, int32_t phase) {
    int32_t count = 0;
    for (int32_t i = 0; i < kernel; i++)
        count += i * dilation % stride == phase;
    return count;
}

static int32_t taps_before(int32_t kernel, int32_t dilation, int32_t stride, int32_t phase) {
    int32_t count = 0;
    for (int32_t before = 0; before < phase; before++)
        count += taps_of(kernel, dilation, stride, before);
    return count;
}

/* at + pad modulo the stride, never negative. */
static int32_t phase_of(int32_t at, int32_t pad, int32_t stride) {
    return ((at + pad) % stride + stride) % stride;
}

void LB_SIMD(conv_transpose_f32)(const lb_conv_transpose_f32_params *p, const float *x, const void *w, const float *bias, float *out,
                                 void *scratch, int32_t begin, int32_t end) {
    const int32_t depth = p->in_c / p->groups, n = p->out_c / p->groups;
    const ptrdiff_t k = (ptrdiff_t)p->kernel_h * p->kernel_w * depth;
    const ptrdiff_t group_size = (ptrdiff_t)(n + LB_PANEL - 1) / LB_PANEL * LB_PANEL * k;
    float *zeros = scratch;
    const float **pointers = (const float **)(void *)((char *)scratch + ((sizeof *zeros * (size_t)depth + 63) & ~(size_t)63));
    memset(zeros, 0, sizeof *zeros * (size_t)depth);
    const ptrdiff_t next = (ptrdiff_t)p->stride_w * p->out_c; /* from pixel to pixel of one phase */
    for (int32_t item = begin; item < end; item++) {
        const int32_t r = item % p->out_h, down = phase_of(r, p->pad_h, p->stride_h);
        const int32_t high = taps_of(p->kernel_h, p->dilation_h, p->stride_h, down);
        const int32_t above = taps_before(p->kernel_h, p->dilation_h, p->stride_h, down);
        for (int32_t start = 0; start < lb_least(p->stride_w, p->out_w); start++) {
            const int32_t across = phase_of(start, p->pad_w, p->stride_w), wide = taps_of(p->kernel_w, p->dilation_w, p->stride_w, across);
            const int32_t before = above * p->kernel_w + high * taps_before(p->kernel_w, p->dilation_w, p->stride_w, across);
            const int32_t pixels = (p->out_w - start + p->stride_w - 1) / p->stride_w;
            for (int32_t g = 0; g < p->groups; g++)
                for (int32_t first = 0; first < pixels; first += LB_TILE_ROWS) {
                    const int32_t rows = lb_least(pixels - first, LB_TILE_ROWS);
                    const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->in_c + (ptrdiff_t)g * depth;
                    const float **to = pointers;
                    for (int32_t i = 0; i < p->kernel_h; i++)
                        for (int32_t j = 0; j < p->kernel_w; j++) {
                            if (i * p->dilation_h % p->stride_h != down || j * p->dilation_w % p->stride_w != across)
                                continue;
                            const int32_t from_r = r + p->pad_h - i * p->dilation_h, row = from_r / p->stride_h;
                            for (int32_t t = 0; t < rows; t++) {
                                const int32_t from_c = start + (first + t) * p->stride_w + p->pad_w - j * p->dilation_w;
                                const int32_t column = from_c / p->stride_w;
                                const int inside = from_r >= 0 && row < p->in_h && from_c >= 0 && column < p->in_w;
                                to[t] = inside ? image + ((ptrdiff_t)row * p->in_w + column) * p->in_c : zeros;
                            }
                            to += LB_TILE_ROWS;
                        }
                    for (int32_t j = 0; j < n; j += LB_TILE_COLUMNS) {
                        const int32_t channel = g * n + j;
                        const lb_tile_end e = {bias + channel, p->lo, p->hi};
                        const float *panel = (const float *)w + g * group_size + j * k + (ptrdiff_t)before * depth * LB_PANEL;
                        const ptrdiff_t at = ((ptrdiff_t)item * p->out_w + start) * p->out_c + first * next + channel;
                        lb_tile_f32(rows, lb_least(n - j, LB_TILE_COLUMNS), pointers, high * wide, depth, panel, lb_panels_of(k, LB_LATER),
                                    &e, out + at, next);
                    }
                }
        }
    }
}

#endif
