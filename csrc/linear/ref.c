#include "gemm/gemm_s8_ref.h"
#include "linear/linear_blocks.h"
#include "base/numerics.h"

/* out = `of`, an expression of row i and column j, for every result of the items. */
#define LB_EACH_RESULT(of)                                                                                                                 \
    (void)scratch;                                                                                                                         \
    for (int32_t item = begin; item < end; item++) {                                                                                       \
        const lb_block b = lb_linear_block(p, item);                                                                                       \
        for (int32_t i = b.top; i < b.bottom; i++)                                                                                         \
            for (int32_t j = b.left; j < b.right; j++)                                                                                     \
                out[(ptrdiff_t)i * p->out_stride + j] = of;                                                                                \
    }
#define LB_SUM lb_ref_dot(x + (ptrdiff_t)i * p->k, 0, p->x_zero, (const int8_t *)w + (ptrdiff_t)j * p->k, 0, p->k)
#define LB_ACC (int32_t)((uint32_t)bias[j] + (uint32_t)LB_SUM)

lb_linear_s8_fn lb_linear_s8__ref;

void lb_linear_s8__ref(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                       int8_t *out, void *scratch, int32_t begin,
                       int32_t end){LB_EACH_RESULT((int8_t)lb_requantize(LB_ACC, multiplier[j], p -> y_zero, p->lo, p->hi))}

lb_linear_s8_f32_fn lb_linear_s8_f32__ref;

void lb_linear_s8_f32__ref(const lb_linear_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                           lb_f32 *out, void *scratch, int32_t begin,
                           int32_t end){LB_EACH_RESULT(lb_f32_mul(lb_f32_from_s32(LB_ACC), multiplier[j]))}

lb_linear_s8_s16_fn lb_linear_s8_s16__ref;

void lb_linear_s8_s16__ref(const lb_linear_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                           int16_t *out, void *scratch, int32_t begin,
                           int32_t end){LB_EACH_RESULT((int16_t)lb_requantize(LB_ACC, multiplier[j], p -> y_zero, p->lo, p->hi))}

lb_linear_s8_rows_f32_fn lb_linear_s8_rows_f32__ref;

void lb_linear_s8_rows_f32__ref(const lb_linear_s8_rows_f32_params *p, const int8_t *x, const void *w, const lb_f32 *bias,
                                const lb_f32 *scales, const lb_f32 *x_scales, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    LB_EACH_RESULT(
        lb_f32_add(lb_f32_add(lb_f32_from_s32(0), lb_f32_mul(lb_f32_from_s32(LB_SUM), lb_f32_mul(x_scales[i], scales[j]))), bias[j]))
}
