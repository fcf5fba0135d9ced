#include "lb.h"
#include "lb_numerics.h"

lb_cast_int_f32_fn lb_cast_int_f32__ref;

void lb_cast_int_f32__ref(const lb_cast_int_f32_params *p, const void *x, float *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        switch (p->x_bytes) {
        case 1:
            out[i] = lb_f32_from_s32(((const int8_t *)x)[i]);
            break;
        case 2:
            out[i] = lb_f32_from_s32(((const int16_t *)x)[i]);
            break;
        case 4:
            out[i] = lb_f32_from_s32(((const int32_t *)x)[i]);
            break;
        default:
            out[i] = lb_f32_from_s64(((const int64_t *)x)[i]);
        }
}
