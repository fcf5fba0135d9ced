/* Where the parts of a window's rows are, in one list: a loop in a loop would end as often as the window has rows, which the processor does
 * not foresee. */
#ifndef LB_FEW_CHANNELS_TAPS_H
#define LB_FEW_CHANNELS_TAPS_H

#include "lb.h"

#include <stddef.h>

enum { TAPS = 512 };

typedef struct {
    int32_t all;           /* parts of a window */
    int32_t offsets[TAPS]; /* of TAPS of them, in elements from where the window begins */
} taps;

/* Those from `first` on. A part has `size` elements; rows are `pitch` elements apart. */
static __attribute__((noinline)) void find_taps(const lb_conv_few_channels_s8_params *p, const int32_t size, ptrdiff_t pitch, int32_t first,
                                                taps *t) {
    const int32_t parts = (p->kernel_w * p->in_c + size - 1) / size, end = t->all - first < TAPS ? t->all - first : TAPS;
    for (int32_t i = 0, row = first / parts, j = first % parts; i < end; i++) {
        t->offsets[i] = (int32_t)(row * pitch * p->dilation_h) + size * j;
        if (++j == parts)
            j = 0, row++;
    }
}

/* Rows of the output that are done at once, of one image: up to `block` from `item` on. */
typedef struct {
    int32_t rows;
    const int8_t *image;
    int32_t top, high; /* the first row of the image that they see, and how many */
} row_block;

static inline row_block row_block_at(const lb_conv_few_channels_s8_params *p, const int8_t *x, int32_t item, int32_t end) {
    const int32_t row = item % p->out_h, left = p->out_h - row, most = end - item < left ? end - item : left;
    const int32_t rows = most < p->block ? most : p->block;
    return (row_block){.rows = rows,
                       .image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->in_c,
                       .top = row * p->stride_h - p->pad_h,
                       .high = (rows - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1};
}

/* Row i of those, or NULL where it is padding. */
static inline const int8_t *row_of_block(const lb_conv_few_channels_s8_params *p, const row_block *b, int32_t i) {
    const int inside = b->top + i >= 0 && b->top + i < p->in_h;
    return inside ? b->image + (ptrdiff_t)(b->top + i) * p->in_w * p->in_c : NULL;
}

#endif
