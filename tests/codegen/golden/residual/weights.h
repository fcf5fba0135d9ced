/* Constants of the network, packed as the kernels want them. They stand in flash: to put them elsewhere define
 * MODEL_WEIGHTS_SECTION, for instance -D'MODEL_WEIGHTS_SECTION=__attribute__((section(".qspi")))'. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdint.h>

#include "kernels/lb_numerics.h"

#ifndef MODEL_WEIGHTS_SECTION
#define MODEL_WEIGHTS_SECTION
#endif

extern const int8_t model_body_w[9]; /* body */
extern const int32_t model_body_bias[3]; /* body */
extern const lb_f32 model_body_multiplier[3]; /* body */

#endif
