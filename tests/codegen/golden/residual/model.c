/* One call for each layer, in order. Written by lowbit 0.1.0. */
#include "model.h"

#include "kernels/lb.h"
#include "weights.h"

lb_linear_s8_fn lb_linear_s8__ref;
lb_add_s8_fn lb_add_s8__ref;

_Static_assert(MODEL_ARENA_BYTES >= 8, "the arena holds every buffer");

/* body (q_linear): int8[2, 3] -> int8[2, 3] */
static const lb_linear_s8_params layer_body = {
    .rows = 2, .k = 3, .n = 3, .block_rows = 4, .block_columns = 16, .out_stride = 3, .x_zero = 0, .y_zero = 1, .lo = -128,
    .hi = 127};

/* sum (q_add): int8[2, 3], int8[2, 3] -> int8[2, 3] */
static const lb_add_s8_params layer_sum = {
    .shape = {1, 1, 1, 6}, .a_stride = {0, 0, 0, 1}, .b_stride = {0, 0, 0, 1}, .a_multiplier = {0x3f000000u},
    .b_multiplier = {0x3f400000u}, .offset = {0x3fc00000u}, .lo = -128, .hi = 127};

void model_run_in(void *arena, const int8_t *in, int8_t *out) {
    uint8_t *const a = arena;
    /* body (q_linear): int8[2, 3] -> int8[2, 3] */
    lb_linear_s8__ref(
        &layer_body, in, model_body_w, model_body_bias, model_body_multiplier, (int8_t *)(void *)(a + 0), a /* scratch: none */, 0,
        1);
    /* sum (q_add): int8[2, 3], int8[2, 3] -> int8[2, 3] */
    lb_add_s8__ref(&layer_sum, (const int8_t *)(const void *)(a + 0), in, out, 0, 6);
}

#ifndef MODEL_NO_STATIC_ARENA
static _Alignas(MODEL_ARENA_ALIGNMENT) uint8_t arena[MODEL_ARENA_BYTES];

_Static_assert(sizeof arena == 8, "RAM is what README.md says");

void model_run(const int8_t *in, int8_t *out) {
    model_run_in(arena, in, out);
}
#endif
