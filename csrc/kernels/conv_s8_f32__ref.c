#include "lb_conv_ref.h"
#include "lb_numerics.h"

lb_conv_s8_f32_fn lb_conv_s8_f32__ref;

void lb_conv_s8_f32__ref(const lb_conv_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                         float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_conv_first(p, begin); i < lb_conv_first(p, end); i++)
        for (int32_t o = 0; o < p->out_c; o++)
            out[(ptrdiff_t)i * p->out_stride + o] = lb_f32_mul(lb_f32_from_s32(lb_conv_ref(p, x, w, bias[o], i, o)), multiplier[o]);
}
