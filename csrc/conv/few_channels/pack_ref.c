/* Weights of conv_few_channels_s8: int16 in pairs along a run (avx2), int8 in quads with sums before them (avx512vnni). And those of
 * conv_stride2_winograd_s8, transformed. */
#include "lb.h"
#include "base/ceil.h"

#include <string.h>

enum { PANEL = 16 };

lb_conv_few_channels_s8_sizes_fn lb_conv_few_channels_s8_sizes__ref;

enum { ROWS_AT_ONCE = 12 << 10 }; /* bytes of rows that stay in the first-level cache beside the weights */

void lb_conv_few_channels_s8_sizes__ref(const lb_conv_few_channels_s8_sizes_params *p, int64_t *sizes) {
    const int quads = p->isa == LB_ISA_avx512vnni;
    const int64_t across = quads ? lb_most_of(p->out_w, 16) : p->out_w, panels = lb_ceil(p->out_c, PANEL), run = p->kernel_w * p->in_c;
    const int64_t reach = ((across - 1) * p->stride_w + p->kernel_w) * p->in_c;
    const int64_t pitch = quads ? lb_ceil_to(reach, 64) + 64 : 2 * (lb_ceil_to(reach, 16) + 16);
    const int64_t block = lb_most_of(1, lb_least_of(p->out_h, ROWS_AT_ONCE / (pitch * p->stride_h) - p->kernel_h / p->stride_h));
    sizes[0] = quads ? panels * 64 * (1 + p->kernel_h * lb_ceil(run, 4)) : panels * p->kernel_h * lb_ceil(run, 2) * 64;
    sizes[1] = ((block - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1) * pitch;
    sizes[2] = block;
}

lb_conv_few_channels_s8_pack_fn lb_conv_few_channels_s8_pack__ref;

void lb_conv_few_channels_s8_pack__ref(const lb_conv_few_channels_s8_pack_params *p, const int8_t *w, void *packed) {
    const int quads = p->isa == LB_ISA_avx512vnni;
    const int64_t run = p->kernel_w * p->in_c, size = quads ? 4 : 2, parts = lb_ceil(run, size), panels = lb_ceil(p->out_c, PANEL);
    int32_t *sums = packed;
    int8_t *bytes = (int8_t *)(sums + PANEL * panels);
    int16_t *words = packed;
    memset(packed, 0, (size_t)(panels * 64 * (quads + p->kernel_h * parts)));
    for (int64_t o = 0; o < p->out_c; o++)
        for (int64_t i = 0; i < p->kernel_h; i++)
            for (int64_t j = 0; j < run; j++) {
                const int8_t v = w[(o * p->kernel_h + i) * run + j];
                const int64_t at = (((o / PANEL * p->kernel_h + i) * parts + j / size) * PANEL + o % PANEL) * size + j % size;
                if (quads)
                    sums[o] += v, bytes[at] = v;
                else
                    words[at] = v;
            }
}

lb_conv_stride2_winograd_s8_sizes_fn lb_conv_stride2_winograd_s8_sizes__ref;

enum { TILES_AT_ONCE = 6 }; /* whose products stay in the first-level cache */

void lb_conv_stride2_winograd_s8_sizes__ref(const lb_conv_stride2_winograd_s8_sizes_params *p, int64_t *sizes) {
    const int64_t tiles = lb_ceil(p->out_w, 3), block = lb_ceil(tiles, lb_ceil(tiles, TILES_AT_ONCE)); /* of about equal size */
    sizes[0] = lb_ceil(p->out_c, PANEL) * 36 * 4 * p->in_c * PANEL * 2;
    sizes[1] = 576 * (tiles + 1) + 3456 * block;
    sizes[2] = block;
}

lb_conv_stride2_winograd_s8_pack_fn lb_conv_stride2_winograd_s8_pack__ref;

void lb_conv_stride2_winograd_s8_pack__ref(const lb_conv_stride2_winograd_s8_pack_params *p, const int8_t *w, void *packed) {
    static const int32_t g[6][4] = {{1, 0, 0, 0}, {-1, -1, -1, -1}, {-1, 1, -1, 1}, {1, 2, 4, 8}, {1, -2, 4, -8}, {0, 0, 0, 1}};
    const int64_t depth = 4 * p->in_c;
    int16_t *to = packed;
    memset(to, 0, (size_t)(lb_ceil(p->out_c, PANEL) * 36 * depth * PANEL * 2));
    for (int64_t o = 0; o < p->out_c; o++)
        for (int64_t i = 0; i < p->kernel_h; i++)
            for (int64_t j = 0; j < p->kernel_w; j++)
                for (int64_t l = 0; l < p->in_c; l++) {
                    const int64_t row = i + p->pad_h % 2, column = j + p->pad_w % 2, c = (row % 2 * 2 + column % 2) * p->in_c + l;
                    const int32_t v = w[((o * p->kernel_h + i) * p->kernel_w + j) * p->in_c + l];
                    for (int64_t q = 0; q < 36; q++) {
                        int16_t *u = &to[(((o / PANEL * 36 + q) * depth / 2 + c / 2) * PANEL + o % PANEL) * 2 + c % 2];
                        *u = (int16_t)(*u + g[q / 6][row / 2] * g[q % 6][column / 2] * v);
                    }
                }
}
