/* What the implementations of recurrent layers share: items, steps and where they stand; gates of 16 bits. */
#ifndef LB_RNN_SHARED_H
#define LB_RNN_SHARED_H

#include "lb.h"
#include "base/numerics.h"

#include <stddef.h>

/* Units first ... last - 1 of a direction. */
typedef struct {
    int32_t direction, first, last;
} lb_units;

static inline lb_units lb_units_of(const lb_lstm_s8_params *p, int32_t item) {
    const int32_t blocks = (int32_t)(((int64_t)p->hidden + p->block - 1) / p->block), first = item % blocks * p->block;
    return (lb_units){item / blocks, first, p->hidden - first < p->block ? p->hidden : first + p->block};
}

/* Where a step of one row of the batch finds its input and its states, and puts its output. */
typedef struct {
    ptrdiff_t row, y, before, state; /* a row of px; elements of y, of the y before it (step > 0), of h, c and s */
} lb_moment;

static inline lb_moment lb_moment_of(const lb_lstm_s8_params *p, int32_t direction, int32_t step, int32_t batch) {
    const int back = p->reverse || direction == 1;
    const ptrdiff_t t = back ? p->time - 1 - step : step, at = (ptrdiff_t)direction * p->y_direction + (ptrdiff_t)batch * p->y_batch;
    return (lb_moment){t * p->x_time + (ptrdiff_t)batch * p->x_batch, t * p->y_time + at, (back ? t + 1 : t - 1) * p->y_time + at,
                       (ptrdiff_t)direction * p->s_direction + (ptrdiff_t)batch * p->s_batch};
}

/* fl32 of a sum of 32 or 64 bits: machines of 32 bits convert the longer ones in many steps. */
#define LB_SUM_F32(sum) (sizeof(sum) == 4 ? lb_f32_from_s32((int32_t)(sum)) : lb_f32_from_s64(sum))

/* tanh in Q0.15 of g in Q3.12. */
static inline int32_t lb_tanh16(int32_t g, const int16_t *table) {
    const int32_t at = g + 32768, i = at >> 7, part = at & 127;
    return (table[i] * (128 - part) + table[i + 1] * part + 64) >> 7;
}

static inline int32_t lb_clamp16s(int32_t v) {
    return lb_clamp(v, -32768, 32767);
}

/* tanh, and sigmoid, in Q0.15 of a real. */
static inline int32_t lb_tanh_gate(lb_f32 v, const int16_t *table) {
    return lb_tanh16(lb_round_clamp(lb_f32_mul(v, lb_f32_from_s32(4096)), 0, -32768, 32767), table);
}

static inline int32_t lb_sigmoid_gate(lb_f32 v, const int16_t *table) {
    return (lb_tanh16(lb_round_clamp(lb_f32_mul(v, lb_f32_from_s32(2048)), 0, -32768, 32767), table) + 32768) >> 1;
}

/* The gates of an LSTM as reals: tanh, a multiple of 2^-15, and sigmoid, a multiple of 2^-16. The largest tanh is an open gate, 1. */
static inline lb_f32 lb_tanh_real(lb_f32 v, const int16_t *table) {
    return lb_f32_mul(lb_f32_from_s32(lb_tanh_gate(v, table)), lb_f32_of_bits(0x38000000u)); /* 2^-15 */
}

static inline lb_f32 lb_sigmoid_real(lb_f32 v, const int16_t *table) {
    const int32_t tanh = lb_tanh16(lb_round_clamp(lb_f32_mul(v, lb_f32_from_s32(2048)), 0, -32768, 32767), table);
    return lb_f32_mul(lb_f32_from_s32(tanh + 32768 + (tanh == 32767)), lb_f32_of_bits(0x37800000u)); /* 2^-16 */
}

/* keep * old + take * fresh as a state of scale 2^-bits; keep, take and fresh are Q0.15. */
static inline int32_t lb_mix(int32_t keep, int32_t old, int32_t take, int32_t fresh, int32_t bits) {
    return lb_clamp16s((keep * old + ((take * fresh) >> (15 - bits)) + (1 << 14)) >> 15);
}

/* Items begin ... end - 1, their steps and rows: `u` are an item's units, `at` is the place of a row of the batch in a step. */
#define LB_EACH_MOMENT(p, u, step, at)                                                                                                     \
    for (int32_t item = begin; item < end; item++)                                                                                         \
        for (lb_units u = lb_units_of(p, item), *of_item = &u; of_item; of_item = NULL)                                                    \
            for (int32_t step = (p)->first; step < (p)->first + (p)->steps; step++)                                                        \
                for (int32_t b = 0; b < (p)->batch; b++)                                                                                   \
                    for (lb_moment at = lb_moment_of(p, u.direction, step, b), *once = &at; once; once = NULL)

#endif
