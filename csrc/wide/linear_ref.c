#include "wide/linear_s16.h"
#include "base/numerics.h"

/* out = `of`, an expression of row i and column j, for every result of the items. */
#define LB_EACH_RESULT(of)                                                                                                                 \
    for (int32_t item = begin; item < end; item++) {                                                                                       \
        const lb_block b = lb_linear_block(p, item);                                                                                       \
        for (int32_t i = b.top; i < b.bottom; i++)                                                                                         \
            for (int32_t j = b.left; j < b.right; j++)                                                                                     \
                out[(ptrdiff_t)i * p->out_stride + j] = of;                                                                                \
    }
#define LB_SCALED lb_f32_mul(lb_f32_from_s64(lb_dot_s16(p, x, w, bias[j], i, j)), multiplier[j])

lb_linear_s16_fn lb_linear_s16__ref;

void lb_linear_s16__ref(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                        int16_t *out, int32_t begin,
                        int32_t end){LB_EACH_RESULT((int16_t)lb_round_clamp(LB_SCALED, p -> y_zero, p->lo, p->hi))}

lb_linear_s16_s8_fn lb_linear_s16_s8__ref;

void lb_linear_s16_s8__ref(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                           int8_t *out, int32_t begin,
                           int32_t end){LB_EACH_RESULT((int8_t)lb_round_clamp(LB_SCALED, p -> y_zero, p->lo, p->hi))}

lb_linear_s16_f32_fn lb_linear_s16_f32__ref;

void lb_linear_s16_f32__ref(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                            const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end) {
    LB_EACH_RESULT(LB_SCALED)
}
