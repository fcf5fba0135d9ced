#include "base/numerics.h"
#include "int4/w4.h"

lb_linear_w4_s8_fn lb_linear_w4_s8__ref;

void lb_linear_w4_s8__ref(const lb_linear_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                          int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int32_t acc = lb_w4_acc(p, x, w, bias, i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = (int8_t)lb_requantize(acc, multiplier[j], p->y_zero, p->lo, p->hi);
            }
    }
}

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__ref;

void lb_linear_w4_s8_s16__ref(const lb_linear_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                              const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int32_t acc = lb_w4_acc(p, x, w, bias, i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = (int16_t)lb_requantize(acc, multiplier[j], p->y_zero, p->lo, p->hi);
            }
    }
}

lb_linear_w4_s8_f32_fn lb_linear_w4_s8_f32__ref;

void lb_linear_w4_s8_f32__ref(const lb_linear_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                              const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
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

lb_linear_w4_blocks_s8_fn lb_linear_w4_blocks_s8__ref;

void lb_linear_w4_blocks_s8__ref(const lb_linear_w4_blocks_s8_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                 const lb_f32 *bias, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const lb_f32 t = lb_w4_blocks(p, x, lb_f32_from_s32(1), w, scales, bias, i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = (int8_t)lb_quantize(t, p->y_scale, p->y_zero, p->lo, p->hi);
            }
    }
}

lb_linear_w4_blocks_s8_s16_fn lb_linear_w4_blocks_s8_s16__ref;

void lb_linear_w4_blocks_s8_s16__ref(const lb_linear_w4_blocks_s8_s16_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                     const lb_f32 *bias, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const lb_f32 t = lb_w4_blocks(p, x, lb_f32_from_s32(1), w, scales, bias, i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = (int16_t)lb_quantize(t, p->y_scale, p->y_zero, p->lo, p->hi);
            }
    }
}

lb_linear_w4_blocks_s8_f32_fn lb_linear_w4_blocks_s8_f32__ref;

void lb_linear_w4_blocks_s8_f32__ref(const lb_linear_w4_blocks_s8_f32_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                     const lb_f32 *bias, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const lb_f32 t = lb_w4_blocks(p, x, lb_f32_from_s32(1), w, scales, bias, i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = t;
            }
    }
}

lb_linear_w4_rows_f32_fn lb_linear_w4_rows_f32__ref;

void lb_linear_w4_rows_f32__ref(const lb_linear_w4_rows_f32_params *p, const int8_t *x, const lb_f32 *x_scales, const void *w,
                                const lb_f32 *scales, const lb_f32 *bias, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++)
                out[(ptrdiff_t)i * p->out_stride + j] = lb_w4_blocks(p, x, x_scales[i], w, scales, bias, i, j);
    }
}
