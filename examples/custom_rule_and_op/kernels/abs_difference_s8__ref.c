#include "abs_difference.h"
#include "base/numerics.h"

lb_abs_difference_s8_fn lb_abs_difference_s8__ref;

void lb_abs_difference_s8__ref(const lb_abs_difference_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin,
                               int32_t end) {
    for (int32_t i = begin; i < end; i++) {
        const float left = (float)(a[i] - p->a_zero) * p->a_multiplier;
        const float right = (float)(b[i] - p->b_zero) * p->b_multiplier;
        const float apart = left > right ? left - right : right - left;
        out[i] = (int8_t)lb_round_clamp(apart, p->y_zero, p->lo, p->hi);
    }
}
