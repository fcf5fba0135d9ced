#include "base/numerics.h"
#include "int4/w4.h"

/* out = `of`, an expression of row i and column j, for every result of the items. */
#define LB_W4_EACH(of)                                                                                                                     \
    (void)scratch;                                                                                                                         \
    for (int32_t item = begin; item < end; item++) {                                                                                       \
        const lb_block b = lb_w4_item(p->rows, p->n, p->block_rows, p->block_columns, item);                                               \
        for (int32_t i = b.top; i < b.bottom; i++)                                                                                         \
            for (int32_t j = b.left; j < b.right; j++)                                                                                     \
                out[(ptrdiff_t)i * p->out_stride + j] = of;                                                                                \
    }
#define LB_W4_REQUANTIZED lb_requantize(lb_w4_acc(p, x, w, bias, i, j), multiplier[j], p->y_zero, p->lo, p->hi)
#define LB_W4_BLOCKS lb_w4_blocks(p, x, lb_f32_from_s32(1), w, scales, bias, i, j)
#define LB_W4_QUANTIZED lb_quantize(LB_W4_BLOCKS, p->y_scale, p->y_zero, p->lo, p->hi)

lb_linear_w4_s8_fn lb_linear_w4_s8__ref;

void lb_linear_w4_s8__ref(const lb_linear_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                          int8_t *out, void *scratch, int32_t begin, int32_t end){LB_W4_EACH((int8_t)LB_W4_REQUANTIZED)}

lb_linear_w4_s8_s16_fn lb_linear_w4_s8_s16__ref;

void lb_linear_w4_s8_s16__ref(const lb_linear_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                              const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin,
                              int32_t end){LB_W4_EACH((int16_t)LB_W4_REQUANTIZED)}

lb_linear_w4_s8_f32_fn lb_linear_w4_s8_f32__ref;

void lb_linear_w4_s8_f32__ref(const lb_linear_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                              const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin,
                              int32_t end){LB_W4_EACH(lb_f32_mul(lb_f32_from_s32(lb_w4_acc(p, x, w, bias, i, j)), multiplier[j]))}

lb_linear_w4_blocks_s8_fn lb_linear_w4_blocks_s8__ref;

void lb_linear_w4_blocks_s8__ref(const lb_linear_w4_blocks_s8_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                 const lb_f32 *bias, int8_t *out, void *scratch, int32_t begin,
                                 int32_t end){LB_W4_EACH((int8_t)LB_W4_QUANTIZED)}

lb_linear_w4_blocks_s8_s16_fn lb_linear_w4_blocks_s8_s16__ref;

void lb_linear_w4_blocks_s8_s16__ref(const lb_linear_w4_blocks_s8_s16_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                     const lb_f32 *bias, int16_t *out, void *scratch, int32_t begin,
                                     int32_t end){LB_W4_EACH((int16_t)LB_W4_QUANTIZED)}

lb_linear_w4_blocks_s8_f32_fn lb_linear_w4_blocks_s8_f32__ref;

void lb_linear_w4_blocks_s8_f32__ref(const lb_linear_w4_blocks_s8_f32_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                     const lb_f32 *bias, lb_f32 *out, void *scratch, int32_t begin, int32_t end){LB_W4_EACH(LB_W4_BLOCKS)}

lb_linear_w4_rows_f32_fn lb_linear_w4_rows_f32__ref;

void lb_linear_w4_rows_f32__ref(const lb_linear_w4_rows_f32_params *p, const int8_t *x, const lb_f32 *x_scales, const void *w,
                                const lb_f32 *scales, const lb_f32 *bias, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    LB_W4_EACH(lb_w4_blocks(p, x, x_scales[i], w, scales, bias, i, j))
}
