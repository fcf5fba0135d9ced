/* Recurrent layers: what happens step by step, after the products of all inputs (docs/arithmetic.md, 7). lb.h has the rules of every
 * contract. */
#ifndef LB_RNN_H
#define LB_RNN_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- lstm_s8, gru_s8: 8-bit states; lstm_s16, gru_s16: 16-bit states; lstm_rows_s8, gru_rows_s8: float states, quantized at each step
 *
 * Gates are i, o, f, c of an LSTM (4) and z, r, h of a GRU (3). With `rows` = directions * gates * hidden, in that order:
 *
 *   px       time * batch rows of `rows` floats: fl32(sum of x * w), in lstm_s8, gru_s8 and those of 16 bits times their scale
 *   bias     rows; zeros where there is none, and alike r_bias
 *   r        the recurrent weights, (rows, hidden) for `ref`, armdsp, mve; others see below. The sums fit int32 (with 16-bit states: int64)
 *   r_scale  rows
 *   table    513 of tanh in Q0.15
 *   h0, c0   the initial states; h, c the last ones; y the state at every time. Cells of an LSTM, c0 and c, are floats
 *   s        of a GRU: its 16-bit state, memory that the calls of one layer share; after the last step it is the last one
 *
 * Time of step i is i or, going back, time - 1 - i. A call does the steps first ... first + steps - 1 and finds what the steps before
 * gave in y, and in c or s; h is written by the last step of all.
 *
 * Item: `block` units of a direction, directions * ceil(hidden / block) of them. They are independent in a single step. So block >=
 * hidden where steps > 1, and where a GRU is not linear_before_reset: an item is then a whole direction.
 *
 * scratch, aligned to 64: batch * 40 * (hidden rounded up to 64) bytes; `ref`, armdsp and mve take none for lstm_s8 and lstm_s16,
 * 2 * hidden for gru_s8 and gru_s16.
 *
 * Other instruction sets than those take 8-bit weights in panels, (k / 4, gates, units, 4), where k is hidden rounded up to 16 and the last
 * axis is the input. Directions one after the other. A GRU that is not linear_before_reset has all panels of the gates z and r, then all
 * of h. Aligned to 64. avx2: weights plus 128, panels of eight units, of which there are two for every 16 units; what does not exist is
 * 128. avx512vnni: weights as they are, panels of 16 units; what does not exist is 0. Before the panels (of a direction, or of z and r, or
 * of h) stand the sums of weights over the inputs: int32, (panels, gates, 16). Weights of 16-bit states: (k / 2, gates, units, 2) words as
 * they are, panels of eight (avx2) or 16 units, two for every 16 units of avx2; what does not exist is 0, and no sums stand before them. */

/* ---- lstm_x_s8, gru_x_s8: lstm_s8 and gru_s8 where memory is dear
 *
 * They make px themselves, unit by unit: rows of `inputs` elements of x, time * batch of them, and weights w, (rows, inputs), give
 * fl32(sum of (x - x_zero) * w) * w_scale; the sums fit int32. Nothing is kept of it. Every instruction set takes r as `ref` does. */
typedef struct {
    int32_t time;
    int32_t batch;
    int32_t hidden;     /* >= 1 */
    int32_t directions; /* 1 or 2 */
    int32_t reverse;    /* 1: the first direction goes back; the second always does */
    int32_t first;      /* 0 ... time */
    int32_t steps;      /* 0 ... time - first */
    int32_t block;      /* a multiple of 16 */
    int32_t x_time;     /* rows of px from time to time, and from one of the batch to the next */
    int32_t x_batch;
    int32_t y_time; /* elements of y */
    int32_t y_direction;
    int32_t y_batch;
    int32_t s_direction; /* elements of every state */
    int32_t s_batch;
    int32_t linear_before_reset; /* of a GRU: 0 or 1 */
    int32_t h_zero;              /* from here on not read by *_rows_s8 */
    int32_t lo;
    int32_t hi;
    int32_t state_bits;  /* of a GRU: 0 ... 15 */
    int32_t state_given; /* of a GRU: 1: s holds its first state, 0: it is made of h0 */
    int32_t sums_fit;    /* of 16-bit states: 1: the sums of (h - h_zero) * r fit int32 */
    int32_t inputs;      /* of *_x_s8 alone, and x_zero */
    int32_t x_zero;
    lb_f32 h_multiplier;     /* finite: from the real state (LSTM) or from s (GRU) to h */
    lb_f32 reset_multiplier; /* of a GRU: from r * s to h */
    lb_f32 state_multiplier; /* of a GRU: from h0 to s */
} lb_lstm_s8_params;

typedef lb_lstm_s8_params lb_lstm_s16_params;
typedef lb_lstm_s8_params lb_lstm_rows_s8_params;
typedef lb_lstm_s8_params lb_gru_s8_params;
typedef lb_lstm_s8_params lb_gru_s16_params;
typedef lb_lstm_s8_params lb_gru_rows_s8_params;
typedef lb_lstm_s8_params lb_lstm_x_s8_params;
typedef lb_lstm_s8_params lb_gru_x_s8_params;

typedef void lb_lstm_s8_fn(const lb_lstm_s8_params *p, const lb_f32 *px, const lb_f32 *bias, const void *r, const lb_f32 *r_scale,
                           const int16_t *table, const int8_t *h0, const lb_f32 *c0, int8_t *y, int8_t *h, lb_f32 *c, void *scratch,
                           int32_t begin, int32_t end);

typedef void lb_lstm_s16_fn(const lb_lstm_s16_params *p, const lb_f32 *px, const lb_f32 *bias, const int16_t *r, const lb_f32 *r_scale,
                            const int16_t *table, const int16_t *h0, const lb_f32 *c0, int16_t *y, int16_t *h, lb_f32 *c, void *scratch,
                            int32_t begin, int32_t end);

/* x_scale: time * batch; w_scale: rows. px * (x_scale * w_scale) is the product of the input. */
typedef void lb_lstm_rows_s8_fn(const lb_lstm_rows_s8_params *p, const lb_f32 *px, const lb_f32 *x_scale, const lb_f32 *w_scale,
                                const lb_f32 *bias, const void *r, const lb_f32 *r_scale, const lb_f32 *h0, const lb_f32 *c0, lb_f32 *y,
                                lb_f32 *h, lb_f32 *c, void *scratch, int32_t begin, int32_t end);

typedef void lb_gru_s8_fn(const lb_gru_s8_params *p, const lb_f32 *px, const lb_f32 *bias, const void *r, const lb_f32 *r_scale,
                          const lb_f32 *r_bias, const int16_t *table, const int8_t *h0, int8_t *y, int8_t *h, int16_t *s, void *scratch,
                          int32_t begin, int32_t end);

typedef void lb_gru_s16_fn(const lb_gru_s16_params *p, const lb_f32 *px, const lb_f32 *bias, const int16_t *r, const lb_f32 *r_scale,
                           const lb_f32 *r_bias, const int16_t *table, const int16_t *h0, int16_t *y, int16_t *h, int16_t *s, void *scratch,
                           int32_t begin, int32_t end);

typedef void lb_gru_rows_s8_fn(const lb_gru_rows_s8_params *p, const lb_f32 *px, const lb_f32 *x_scale, const lb_f32 *w_scale,
                               const lb_f32 *bias, const void *r, const lb_f32 *r_scale, const lb_f32 *r_bias, const lb_f32 *h0, lb_f32 *y,
                               lb_f32 *h, void *scratch, int32_t begin, int32_t end);

typedef void lb_lstm_x_s8_fn(const lb_lstm_x_s8_params *p, const int8_t *x, const int8_t *w, const lb_f32 *w_scale, const lb_f32 *bias,
                             const int8_t *r, const lb_f32 *r_scale, const int16_t *table, const int8_t *h0, const lb_f32 *c0, int8_t *y,
                             int8_t *h, lb_f32 *c, void *scratch, int32_t begin, int32_t end);

typedef void lb_gru_x_s8_fn(const lb_gru_x_s8_params *p, const int8_t *x, const int8_t *w, const lb_f32 *w_scale, const lb_f32 *bias,
                            const int8_t *r, const lb_f32 *r_scale, const lb_f32 *r_bias, const int16_t *table, const int8_t *h0, int8_t *y,
                            int8_t *h, int16_t *s, void *scratch, int32_t begin, int32_t end);

#endif
