#include "weights.h"

/* body: w, int8[1, 3, 3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int8_t model_body_w[9] = {
    -127, -90, -53, -16, 21, 58, 95, -123, -86};

/* body: bias, int32[3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int32_t model_body_bias[3] = {
    -50, 50, 150};

/* body: multiplier, float32[3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const lb_f32 model_body_multiplier[3] = {
    {0x3a83126fu}, {0x3b03126fu}, {0x3b449ba6u}};
