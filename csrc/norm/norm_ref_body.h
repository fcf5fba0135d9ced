/* The norms, written once for 8 and 16 bits: the file that includes this one defines ELEMENT, PARAMS and KERNEL. */
#include "norm/norm_shared.h"

void KERNEL(const PARAMS *p, const ELEMENT *x, const lb_f32 *gain, const lb_f32 *offset, void *out, int32_t begin, int32_t end) {
    for (int32_t set = begin; set < end; set++) {
        const ptrdiff_t at = (ptrdiff_t)set * p->n;
        int64_t s1 = 0, s2 = 0;
        for (int32_t i = 0; i < p->n; i++) {
            const int64_t d = x[at + i] - p->x_zero;
            s1 += d;
            s2 += d * d;
        }
        const lb_moments m = lb_moments_of(p, s1, s2);
        for (int32_t i = 0; i < p->n; i++) {
            const int32_t c = lb_norm_channel(p, set) + i / p->run;
            const lb_f32 d = lb_f32_sub(lb_f32_from_s32(x[at + i] - p->x_zero), m.mean);
            const lb_f32 y = lb_f32_mul(lb_f32_mul(d, m.r), gain[c]);
            lb_put(out, p->out_bytes, at + i, p->shifted ? lb_f32_add(y, offset[c]) : y, p->y_zero, p->lo, p->hi);
        }
    }
}

#undef ELEMENT
#undef PARAMS
#undef KERNEL
