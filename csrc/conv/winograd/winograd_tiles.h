/* Tiles of outputs of a 3x3 convolution, 4 pixels wide and tile_h high, and the pixels that they see. */
#ifndef LB_WINOGRAD_TILES_H
#define LB_WINOGRAD_TILES_H

#include "lb.h"

#include <string.h>

enum { MOST_POINTS = 36 };

typedef struct {
    int32_t image, row, column; /* of its first output */
} tile;

static inline tile tile_at(const lb_conv3x3_s8_params *p, int64_t t) {
    const int32_t wide = (p->out_w + 3) / 4, high = (p->out_h + p->tile_h - 1) / p->tile_h;
    return (tile){(int32_t)(t / wide / high), (int32_t)(t / wide % high) * p->tile_h, (int32_t)(t % wide) * 4};
}

/* Where the pixels that a tile sees are; those outside the image are `padding`, whose channels are all the first ones. */
typedef struct {
    const int8_t *at[MOST_POINTS];
    ptrdiff_t mask[MOST_POINTS]; /* of the channel */
    int8_t padding[32];          /* as many channels as are loaded at once, at most */
} pixels;

static inline void find(const int high, const lb_conv3x3_s8_params *p, const int8_t *image, int32_t top, int32_t left, pixels *seen) {
    memset(seen->padding, p->x_zero, sizeof seen->padding);
    for (int32_t i = 0; i < high + 2; i++)
        for (int32_t j = 0; j < 6; j++) {
            const int32_t row = top + i, column = left + j;
            const int inside = row >= 0 && row < p->in_h && column >= 0 && column < p->in_w;
            seen->at[6 * i + j] = inside ? image + ((ptrdiff_t)row * p->in_w + column) * p->in_c : seen->padding;
            seen->mask[6 * i + j] = inside ? -1 : 0;
        }
}

/* transform_input2, B' of four vectors for two outputs, over the intrinsics of a width: OP(add_epi16). The second row's sum is 2, that of
 * others 0. */
#define TRANSFORM_INPUT2(VECTOR, OP)                                                                                                       \
    LB_INLINE void transform_input2(const VECTOR *d, VECTOR *o, int to) {                                                                  \
        o[0] = OP(sub_epi16)(d[0], d[2]);                                                                                                  \
        o[to] = OP(add_epi16)(d[1], d[2]);                                                                                                 \
        o[2 * to] = OP(sub_epi16)(d[2], d[1]);                                                                                             \
        o[3 * to] = OP(sub_epi16)(d[1], d[3]);                                                                                             \
    }

#endif
