/* The frame of a recurrent layer of floats. The file that includes it says how rows are multiplied with weights and what a step does. */
#ifndef LB_RNN_F32_H
#define LB_RNN_F32_H

#include "lb.h"
#include "base/math_f32.h"

#include <stddef.h>

enum { LB_RNN_ROWS = 6 };

typedef struct {
    int32_t direction, first, rows; /* of the batch */
    int backwards;
} lb_rnn_item;

static inline lb_rnn_item lb_rnn_at(const lb_lstm_f32_params *p, int32_t item) {
    const int32_t across = (p->batch + LB_RNN_ROWS - 1) / LB_RNN_ROWS, direction = item / across, first = item % across * LB_RNN_ROWS;
    const int32_t left = p->batch - first;
    return (lb_rnn_item){direction, first, left < LB_RNN_ROWS ? left : LB_RNN_ROWS, (direction + p->backwards) & 1};
}

/* Step s of an item happens at this time. */
static inline int32_t lb_rnn_time(const lb_lstm_f32_params *p, lb_rnn_item b, int32_t s) {
    return b.backwards ? p->time - 1 - s : s;
}

static inline const float *lb_rnn_input(const lb_lstm_f32_params *p, lb_rnn_item b, int32_t s, int32_t row, const float *x) {
    return x + (ptrdiff_t)lb_rnn_time(p, b, s) * p->x_stride[0] + (ptrdiff_t)(b.first + row) * p->x_stride[1];
}

static inline float *lb_rnn_output(const lb_lstm_f32_params *p, lb_rnn_item b, int32_t s, int32_t row, float *y) {
    return y + (ptrdiff_t)lb_rnn_time(p, b, s) * p->y_stride[0] + (ptrdiff_t)b.direction * p->y_stride[1] +
           (ptrdiff_t)(b.first + row) * p->y_stride[2];
}

static inline ptrdiff_t lb_rnn_state(const lb_lstm_f32_params *p, lb_rnn_item b, int32_t row) {
    return (ptrdiff_t)b.direction * p->state_stride[0] + (ptrdiff_t)(b.first + row) * p->state_stride[1];
}

#endif
