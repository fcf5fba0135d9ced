#include "lb.h"
#include "lb_float.h"

lb_clip_f32_fn lb_clip_f32__ref;

void lb_clip_f32__ref(const lb_clip_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = lb_clampf(x[i], p->lo, p->hi);
}
