/* model: a network as C, written by lowbit 0.1.0 for portable. README.md tells its sizes.
 *
 * real = SCALE * (q - ZERO_POINT) for inputs and outputs that have them. Tensors are dense, C order.
 * model_run uses a static arena: one call at a time. model_run_in uses the caller's: as many at once as there are arenas. */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/lb_numerics.h"

#define MODEL_ARENA_BYTES 8 /* RAM that the network needs while it runs */
#define MODEL_ARENA_ALIGNMENT 8
#define MODEL_WEIGHT_BYTES 58

#ifdef __cplusplus
extern "C" {
#endif

/* Input x: int8[1, 4]. */
#define MODEL_IN_COUNT 4
#define MODEL_IN_BYTES 4
#define MODEL_IN_SCALE 0.125f /* 0x1p-3f */
#define MODEL_IN_ZERO_POINT (-3)
#define MODEL_IN_QUANTIZE(x) ((int8_t)lb_quantize((x), MODEL_IN_SCALE, MODEL_IN_ZERO_POINT, -128, 127))
#define MODEL_IN_DEQUANTIZE(q) lb_dequantize((q), MODEL_IN_SCALE, MODEL_IN_ZERO_POINT)

/* Output y: float32[1, 2]. */
#define MODEL_OUT_COUNT 2
#define MODEL_OUT_BYTES 8

/* Computes the outputs from the inputs. arena: MODEL_ARENA_BYTES, aligned to MODEL_ARENA_ALIGNMENT; nothing is kept in it. */
void model_run_in(void *arena, const int8_t *in, float *out);

#ifndef MODEL_NO_STATIC_ARENA
/* The same with an arena of its own. */
void model_run(const int8_t *in, float *out);
#endif

#ifdef __cplusplus
}
#endif

#endif
