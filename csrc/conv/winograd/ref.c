#include "conv/conv_ref.h"
#include "base/numerics.h"

lb_conv3x3_s8_fn lb_conv3x3_s8__ref;

void lb_conv3x3_s8__ref(const lb_conv3x3_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                        int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const lb_conv_s8_params c = {.batch = p->batch,
                                 .in_h = p->in_h,
                                 .in_w = p->in_w,
                                 .in_c = p->in_c,
                                 .out_h = p->out_h,
                                 .out_w = p->out_w,
                                 .out_c = p->out_c,
                                 .kernel_h = 3,
                                 .kernel_w = 3,
                                 .stride_h = 1,
                                 .stride_w = 1,
                                 .pad_h = p->pad_h,
                                 .pad_w = p->pad_w,
                                 .dilation_h = 1,
                                 .dilation_w = 1,
                                 .groups = 1,
                                 .x_zero = p->x_zero};
    const int32_t high = (p->out_h + p->tile_h - 1) / p->tile_h, wide = (p->out_w + 3) / 4, tiles = p->batch * high * wide;
    const int32_t parts = (p->out_c + p->block_columns - 1) / p->block_columns;
    for (int32_t item = begin; item < end; item++) {
        const int32_t left = item % parts * p->block_columns,
                      right = p->out_c - left < p->block_columns ? p->out_c : left + p->block_columns;
        for (int64_t t = (int64_t)(item / parts) * p->block; t < (int64_t)(item / parts + 1) * p->block && t < tiles; t++)
            for (int32_t i = 0; i < 4 * p->tile_h; i++) {
                const int32_t row = (int32_t)(t % (high * wide) / wide) * p->tile_h + i / 4, column = (int32_t)(t % wide) * 4 + i % 4;
                if (row >= p->out_h || column >= p->out_w)
                    continue;
                const int32_t pixel = ((int32_t)(t / (high * wide)) * p->out_h + row) * p->out_w + column;
                for (int32_t o = left; o < right; o++)
                    out[(ptrdiff_t)pixel * p->out_stride + o] =
                        (int8_t)lb_requantize(lb_conv_ref(&c, x, w, bias[o], pixel, o), multiplier[o], p->y_zero, p->lo, p->hi);
            }
    }
}
