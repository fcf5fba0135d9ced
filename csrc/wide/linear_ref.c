#include "wide/linear_s16.h"
#include "base/numerics.h"

lb_linear_s16_fn lb_linear_s16__ref;

void lb_linear_s16__ref(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                        int16_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int64_t acc = lb_dot_s16(p, x, w, bias[j], i, j);
                out[(ptrdiff_t)i * p->out_stride + j] =
                    (int16_t)lb_round_clamp(lb_f32_mul(lb_f32_from_s64(acc), multiplier[j]), p->y_zero, p->lo, p->hi);
            }
    }
}

lb_linear_s16_s8_fn lb_linear_s16_s8__ref;

void lb_linear_s16_s8__ref(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                           int8_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int64_t acc = lb_dot_s16(p, x, w, bias[j], i, j);
                out[(ptrdiff_t)i * p->out_stride + j] =
                    (int8_t)lb_round_clamp(lb_f32_mul(lb_f32_from_s64(acc), multiplier[j]), p->y_zero, p->lo, p->hi);
            }
    }
}

lb_linear_s16_f32_fn lb_linear_s16_f32__ref;

void lb_linear_s16_f32__ref(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                            const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const lb_block b = lb_linear_block(p, item);
        for (int32_t i = b.top; i < b.bottom; i++)
            for (int32_t j = b.left; j < b.right; j++) {
                const int64_t acc = lb_dot_s16(p, x, w, bias[j], i, j);
                out[(ptrdiff_t)i * p->out_stride + j] = lb_f32_mul(lb_f32_from_s64(acc), multiplier[j]);
            }
    }
}
