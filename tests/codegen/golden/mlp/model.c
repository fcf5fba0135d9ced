/* One call for each layer, in order. Written by lowbit 0.1.0. */
#include "model.h"

#include "kernels/lb.h"
#include "weights.h"

lb_linear_s8_fn lb_linear_s8__ref;
lb_linear_s8_f32_fn lb_linear_s8_f32__ref;

_Static_assert(MODEL_ARENA_BYTES >= 8, "the arena holds every buffer");

/* fc1 (q_linear): int8[1, 4] -> int8[1, 3] */
static const lb_linear_s8_params layer_fc1 = {
    .rows = 1, .k = 4, .n = 3, .block_rows = 4, .block_columns = 16, .out_stride = 3, .x_zero = -3, .y_zero = -128, .lo = -128,
    .hi = 127};

/* fc2 (q_linear): int8[1, 3] -> float32[1, 2] */
static const lb_linear_s8_f32_params layer_fc2 = {
    .rows = 1, .k = 3, .n = 2, .block_rows = 4, .block_columns = 16, .out_stride = 2, .x_zero = -128, .y_zero = 0, .lo = -128,
    .hi = 127};

void model_run_in(void *arena, const int8_t *in, float *out) {
    uint8_t *const a = arena;
    /* fc1 (q_linear): int8[1, 4] -> int8[1, 3] */
    lb_linear_s8__ref(
        &layer_fc1, in, model_fc1_w, model_fc1_bias, model_fc1_multiplier, (int8_t *)(void *)(a + 0), a /* scratch: none */, 0, 1);
    /* fc2 (q_linear): int8[1, 3] -> float32[1, 2] */
    lb_linear_s8_f32__ref(
        &layer_fc2, (const int8_t *)(const void *)(a + 0), model_fc2_w, model_fc2_bias, model_fc2_multiplier, out,
        a /* scratch: none */, 0, 1);
}

#ifndef MODEL_NO_STATIC_ARENA
static _Alignas(MODEL_ARENA_ALIGNMENT) uint8_t arena[MODEL_ARENA_BYTES];

_Static_assert(sizeof arena == 8, "RAM is what README.md says");

void model_run(const int8_t *in, float *out) {
    model_run_in(arena, in, out);
}
#endif
