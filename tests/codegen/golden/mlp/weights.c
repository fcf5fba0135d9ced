#include "weights.h"

/* fc1: w, int8[1, 3, 4] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int8_t model_fc1_w[12] = {
    -127, -90, -53, -16, 21, 58, 95, -123, -86, -49, -12, 25};

/* fc1: bias, int32[3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int32_t model_fc1_bias[3] = {
    -50, 50, 150};

/* fc1: multiplier, float32[3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const float model_fc1_multiplier[3] = {
    0x1.0624dep-10f, 0x1.0624dep-9f, 0x1.89374cp-9f};

/* fc2: w, int8[1, 2, 3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int8_t model_fc2_w[6] = {
    -127, -90, -53, -16, 21, 58};

/* fc2: bias, int32[2] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int32_t model_fc2_bias[2] = {
    -50, 50};

/* fc2: multiplier, float32[2] */
MODEL_WEIGHTS_SECTION _Alignas(8) const float model_fc2_multiplier[2] = {
    0x1.0624dep-10f, 0x1.0624dep-9f};
