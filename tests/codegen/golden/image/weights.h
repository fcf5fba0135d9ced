/* Constants of the network, packed as the kernels want them. They stand in flash: to put them elsewhere define
 * MODEL_WEIGHTS_SECTION, for instance -D'MODEL_WEIGHTS_SECTION=__attribute__((section(".qspi")))'. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdint.h>

#ifndef MODEL_WEIGHTS_SECTION
#define MODEL_WEIGHTS_SECTION
#endif

extern const int8_t model_conv_w[54]; /* conv */
extern const int32_t model_conv_bias[3]; /* conv */
extern const float model_conv_multiplier[3]; /* conv */

#endif
