/* One call for each layer, in order. Written by lowbit 0.1.0. */
#include "model.h"

#include "kernels/lb.h"
#include "weights.h"

lb_conv_s8_fn lb_conv_s8__armdsp;
lb_max_pool_s8_fn lb_max_pool_s8__ref;
lb_copy_b8_fn lb_copy_b8__ref;

_Static_assert(MODEL_ARENA_BYTES >= 120, "the arena holds every buffer");

/* conv (q_conv_nhwc): int8[1, 4, 4, 2] -> int8[1, 4, 4, 3] */
static const lb_conv_s8_params layer_conv = {
    .batch = 1, .in_h = 4, .in_w = 4, .in_c = 2, .out_h = 4, .out_w = 4, .out_c = 3, .kernel_h = 3, .kernel_w = 3, .stride_h = 1,
    .stride_w = 1, .pad_h = 1, .pad_w = 1, .dilation_h = 1, .dilation_w = 1, .groups = 1, .block = 16, .out_stride = 3,
    .x_zero = 5, .y_zero = 0, .lo = -128, .hi = 127};

/* pool (max_pool_nhwc): int8[1, 4, 4, 3] -> int8[1, 2, 2, 3] */
static const lb_max_pool_s8_params layer_pool = {
    .batch = 1, .in_h = 4, .in_w = 4, .channels = 3, .out_h = 2, .out_w = 2, .kernel_h = 2, .kernel_w = 2, .stride_h = 2,
    .stride_w = 2, .pad_h = 0, .pad_w = 0, .dilation_h = 1, .dilation_w = 1, .out_stride = 3};

/* pool (transpose): int8[1, 2, 2, 3] -> int8[1, 3, 2, 2] */
static const lb_copy_b8_params layer_pool_2 = {
    .shape = {3, 1, 1, 1, 1, 4}, .x_stride = {1, 0, 0, 0, 0, 3}, .out_stride = {4, 0, 0, 0, 0, 1}, .x_offset = 0, .out_offset = 0};

void model_run_in(void *arena) {
    uint8_t *const a = arena;
    /* conv (q_conv_nhwc): int8[1, 4, 4, 2] -> int8[1, 4, 4, 3] */
    lb_conv_s8__armdsp(
        &layer_conv, (const int8_t *)(const void *)(a + 88), model_conv_w, model_conv_bias, model_conv_multiplier,
        (int8_t *)(void *)(a + 0), (void *)(a + 48), 0, 1);
    /* pool (max_pool_nhwc): int8[1, 4, 4, 3] -> int8[1, 2, 2, 3] */
    lb_max_pool_s8__ref(&layer_pool, (const int8_t *)(const void *)(a + 0), (int8_t *)(void *)(a + 48), 0, 2);
    /* pool (transpose): int8[1, 2, 2, 3] -> int8[1, 3, 2, 2] */
    lb_copy_b8__ref(&layer_pool_2, (const uint8_t *)(const void *)(a + 48), (uint8_t *)(void *)(a + 0), 0, 3);
}

#ifndef MODEL_NO_STATIC_ARENA
static _Alignas(MODEL_ARENA_ALIGNMENT) uint8_t arena[MODEL_ARENA_BYTES];

_Static_assert(sizeof arena == 120, "RAM is what README.md says");

void model_run(void) {
    model_run_in(arena);
}

void *model_arena(void) {
    return arena;
}
#endif
