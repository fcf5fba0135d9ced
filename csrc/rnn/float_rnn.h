/* Recurrent layers of floats. What holds for every contract stands in lb.h, what holds for floats in float_product.h. */
#ifndef LB_FLOAT_RNN_H
#define LB_FLOAT_RNN_H

#include <stdint.h>

/* ---- lstm_f32, gru_f32: a layer over all times, ONNX's gates
 * --------------------------------------------------------------------------------- lstm_f32, gates i, o, f, g: z = w x + r h + b; c' =
 * sigmoid(zf) * c + sigmoid(zi) * tanh(zg); h' = sigmoid(zo) * tanh(c'). gru_f32, gates z, r, n: z, r = sigmoid(w x + b + u h + d); n =
 * tanh(w x + b + r * (u h + d)) if linear_before_reset, else tanh(w x + b + u (r * h) + d); h' = (1 - z) * n + z * h. Its h0 and hn are the
 * state, c0 and cn do not exist. bias is (directions, gates * hidden) for lstm_f32, the sum of both; (directions, 2, gates * hidden) for
 * gru_f32: b, then d. Weights are w (directions, gates * hidden, inputs) and r (directions, gates * hidden, hidden) for `ref`; for others
 * panels as those of linear_f32, once for each direction. x and y stand with strides; h0, c0, hn and cn with state_stride: [0] direction,
 * [1] batch. Direction d runs backwards if d + backwards is odd. A step is off by no more than its sums and functions are. Item: up to 6
 * rows of the batch in one direction: directions * ceil(batch / 6), those of one direction one after the other. scratch, aligned to 64: 24
 * * (gates * hidden * (chunk + 2) + 4 * hidden) bytes, gates 4 or 3. */
typedef struct {
    int32_t time;
    int32_t batch;
    int32_t inputs;
    int32_t hidden;
    int32_t directions;
    int32_t backwards;           /* 0 or 1 */
    int32_t linear_before_reset; /* of gru_f32 */
    int32_t chunk;               /* times whose inputs are multiplied at once, >= 1 */
    int32_t x_stride[2];         /* time, batch */
    int32_t y_stride[3];         /* time, direction, batch */
    int32_t state_stride[2];
} lb_lstm_f32_params;

typedef lb_lstm_f32_params lb_gru_f32_params;

typedef void lb_lstm_f32_fn(const lb_lstm_f32_params *p, const float *x, const void *w, const void *r, const float *bias, const float *h0,
                            const float *c0, float *y, float *hn, float *cn, void *scratch, int32_t begin, int32_t end);
typedef void lb_gru_f32_fn(const lb_gru_f32_params *p, const float *x, const void *w, const void *r, const float *bias, const float *h0,
                           float *y, float *hn, void *scratch, int32_t begin, int32_t end);

#endif
