#include "lb.h"
#include "base/elements.h"

lb_norm_s8_fn lb_norm_s8__ref;

#define ELEMENT int8_t
#define PARAMS lb_norm_s8_params
#define KERNEL lb_norm_s8__ref
#include "norm/norm_ref_body.h"

lb_norm_s16_fn lb_norm_s16__ref;

#define ELEMENT int16_t
#define PARAMS lb_norm_s16_params
#define KERNEL lb_norm_s16__ref
#include "norm/norm_ref_body.h"

lb_scale_shift_fn lb_scale_shift__ref;

void lb_scale_shift__ref(const lb_scale_shift_params *p, const void *x, const lb_f32 *gain, const lb_f32 *offset, void *out, int32_t begin,
                         int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const int32_t c = item % p->channels;
        for (ptrdiff_t i = (ptrdiff_t)item * p->inner; i < ((ptrdiff_t)item + 1) * p->inner; i++) {
            const lb_f32 d = lb_f32_from_s32(lb_element(x, p->x_bytes, i) - p->x_zero);
            lb_put(out, p->out_bytes, i, lb_f32_add(lb_f32_mul(d, gain[c]), offset[c]), p->y_zero, p->lo, p->hi);
        }
    }
}
