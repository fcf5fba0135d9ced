/* model: a network as C, written by lowbit 0.1.0 for cortex-m0plus. README.md tells its sizes.
 *
 * real = SCALE * (q - ZERO_POINT) for inputs and outputs that have them. Tensors are dense, C order.
 * Without floats: the _Q16 macros take and give fixed point, an int32_t in units of 1/65536 (Q15.16). Real numbers
 * are lb_f32, which holds the bits of an IEEE single; lb_f32_less(a, b) compares two.
 * model_run uses a static arena: one call at a time. model_run_in uses the caller's: as many at once as there are arenas. */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/lb_fixed.h"

#define MODEL_ARENA_BYTES 8 /* RAM that the network needs while it runs */
#define MODEL_ARENA_ALIGNMENT 8
#define MODEL_WEIGHT_BYTES 33

#ifdef __cplusplus
extern "C" {
#endif

/* Input x: int8[2, 3]. */
#define MODEL_IN_COUNT 6
#define MODEL_IN_BYTES 6

/* Output y: int8[2, 3]. */
#define MODEL_OUT_COUNT 6
#define MODEL_OUT_BYTES 6

/* Computes the outputs from the inputs. arena: MODEL_ARENA_BYTES, aligned to MODEL_ARENA_ALIGNMENT; nothing is kept in it. */
void model_run_in(void *arena, const int8_t *in, int8_t *out);

#ifndef MODEL_NO_STATIC_ARENA
/* The same with an arena of its own. */
void model_run(const int8_t *in, int8_t *out);
#endif

#ifdef __cplusplus
}
#endif

#endif
