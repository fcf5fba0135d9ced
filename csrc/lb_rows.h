/* The scale of a row that is quantized at run time. */
#ifndef LB_ROWS_H
#define LB_ROWS_H

#include "lb.h"
#include "lb_numerics.h"

#include <stddef.h>

/* largest / 127, or 1 where that is 0 or not finite. `largest` >= 0, not NaN. */
static inline float lb_row_scale(float largest) {
    const float scale = largest / 127.0f;
    return scale > 0.0f && scale <= FLT_MAX ? scale : 1.0f;
}

#endif
