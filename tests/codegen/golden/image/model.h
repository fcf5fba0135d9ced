/* model: a network as C, written by lowbit 0.1.0 for cortex-m4. README.md tells its sizes.
 *
 * real = SCALE * (q - ZERO_POINT) for inputs and outputs that have them. Tensors are dense, C order.
 * Inputs and outputs live in the arena: write the inputs, run, read the outputs. Running overwrites the inputs.
 * model_run uses a static arena: one call at a time. model_run_in uses the caller's: as many at once as there are arenas. */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/lb_numerics.h"

#define MODEL_ARENA_BYTES 120 /* RAM that the network needs while it runs */
#define MODEL_ARENA_ALIGNMENT 8
#define MODEL_WEIGHT_BYTES 78

#ifdef __cplusplus
extern "C" {
#endif

/* Input image: int8[1, 4, 4, 2]. */
#define MODEL_IN_COUNT 32
#define MODEL_IN_BYTES 32
#define MODEL_IN(arena) ((int8_t *)(void *)((uint8_t *)(arena) + 88))

/* Output y: int8[1, 3, 2, 2]. */
#define MODEL_OUT_COUNT 12
#define MODEL_OUT_BYTES 12
#define MODEL_OUT(arena) ((const int8_t *)(const void *)((const uint8_t *)(arena) + 0))

/* Computes the outputs in the arena from the inputs there; MODEL_ARENA_BYTES, aligned to MODEL_ARENA_ALIGNMENT. */
void model_run_in(void *arena);

#ifndef MODEL_NO_STATIC_ARENA
/* The same with an arena of its own, and where that is. */
void model_run(void);
void *model_arena(void);
#endif

#ifdef __cplusplus
}
#endif

#endif
