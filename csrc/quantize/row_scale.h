/* The scale of a row that is quantized at run time. */
#ifndef LB_ROW_SCALE_H
#define LB_ROW_SCALE_H

#include "lb.h"
#include "base/numerics.h"

#include <stddef.h>

/* largest / 127, or 1 where that is 0 or not finite. `largest` >= 0, not NaN. */
static inline lb_f32 lb_row_scale(lb_f32 largest) {
    const lb_f32 scale = lb_f32_div(largest, lb_f32_from_s32(127));
    return lb_f32_bits(scale) - 1 < 0x7f7fffffu ? scale : lb_f32_from_s32(1); /* above 0, below infinity */
}

#endif
