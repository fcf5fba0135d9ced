/* ISA: armdsp mve */
#include "wide/linear_s16_ISA.h"

lb_linear_s16_fn lb_linear_s16__ISA;

void lb_linear_s16__ISA(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                        int16_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_S16, begin, end);
}

lb_linear_s16_s8_fn lb_linear_s16_s8__ISA;

void lb_linear_s16_s8__ISA(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                           int8_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_S8, begin, end);
}

lb_linear_s16_f32_fn lb_linear_s16_f32__ISA;

void lb_linear_s16_f32__ISA(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                            const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end) {
    lb_linear_s16_cortex(p, x, w, bias, multiplier, out, LB_TO_F32, begin, end);
}
