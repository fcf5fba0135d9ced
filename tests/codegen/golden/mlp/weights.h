/* Constants of the network, packed as the kernels want them. They stand in flash: to put them elsewhere define
 * MODEL_WEIGHTS_SECTION, for instance -D'MODEL_WEIGHTS_SECTION=__attribute__((section(".qspi")))'. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdint.h>

#ifndef MODEL_WEIGHTS_SECTION
#define MODEL_WEIGHTS_SECTION
#endif

extern const int8_t model_fc1_w[12]; /* fc1 */
extern const int32_t model_fc1_bias[3]; /* fc1 */
extern const float model_fc1_multiplier[3]; /* fc1 */
extern const int8_t model_fc2_w[6]; /* fc2 */
extern const int32_t model_fc2_bias[2]; /* fc2 */
extern const float model_fc2_multiplier[2]; /* fc2 */

#endif
