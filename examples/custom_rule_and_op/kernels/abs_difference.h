/* The contract of an op of one's own, written as those of lowbit are (csrc/lb.h says what holds for all). */
#ifndef ABS_DIFFERENCE_H
#define ABS_DIFFERENCE_H

#include <stdint.h>

/* ---- abs_difference_s8: out = clamp(rne(|fl32(a - a_zero) * a_multiplier - fl32(b - b_zero) * b_multiplier|) + y_zero, lo, hi),
 * each operation rounded. Item: an element. In place. */
typedef struct {
    float a_multiplier; /* finite, > 0 */
    float b_multiplier; /* finite, > 0 */
    int32_t a_zero;     /* -128 ... 127 */
    int32_t b_zero;     /* -128 ... 127 */
    int32_t y_zero;     /* lo ... hi */
    int32_t lo;         /* -128 ... hi */
    int32_t hi;         /* lo ... 127 */
} lb_abs_difference_s8_params;

typedef void lb_abs_difference_s8_fn(const lb_abs_difference_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin,
                                     int32_t end);

#endif
