#include "conv/conv_ref.h"
#include "base/numerics.h"

lb_conv_few_channels_s8_fn lb_conv_few_channels_s8__ref;

void lb_conv_few_channels_s8__ref(const lb_conv_few_channels_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                  const lb_f32 *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t pixel = begin * p->out_w; pixel < end * p->out_w; pixel++)
        for (int32_t o = 0; o < p->out_c; o++)
            out[(ptrdiff_t)pixel * p->out_stride + o] =
                (int8_t)lb_requantize(lb_conv_ref(p, x, w, bias[o], pixel, o), multiplier[o], p->y_zero, p->lo, p->hi);
}
