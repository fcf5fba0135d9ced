/* The scratch of a row of the batch. The including file defines lb_form, the state as it meets the weights. */
#ifndef LB_RNN_ROW_H
#define LB_RNN_ROW_H

/* `wide` is hidden rounded up to 64. */
typedef struct {
    int8_t *h;   /* `wide` bytes, where the state is not bytes before */
    float *kept; /* `wide` floats (or integers) between the two halves of a step, twice */
    float *scale;
    int32_t *sums; /* of panels: gates x LB_UNITS each */
    lb_form *form;
    int32_t *less; /* by how much a form is too large, where it is flipped */
} lb_rnn_row;

static inline lb_rnn_row lb_rnn_row_at(void *scratch, int32_t hidden, int32_t b) {
    const ptrdiff_t wide = ((ptrdiff_t)hidden + 63) / 64 * 64;
    int8_t *at = (int8_t *)scratch + b * 40 * wide;
    return (lb_rnn_row){.h = at,
                        .kept = (float *)(void *)(at + 4 * wide),
                        .scale = (float *)(void *)(at + wide),
                        .sums = (int32_t *)(void *)(at + 12 * wide),
                        .form = (lb_form *)(void *)(at + 28 * wide),
                        .less = (int32_t *)(void *)(at + 2 * wide)};
}

#endif
