#include "weights.h"

/* conv: w, int8[1, 3, 18] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int8_t model_conv_w[54] = {
    -127, -49, -90, -12, -53, 25, -16, 62, 21, 99, 58, -119, 95, -82, -123, -45, -86, -8, 29, 107, 66, -111, 103, -74, -115, -37,
    -78, 0, -41, 37, -4, 74, 33, 111, 70, -107, -70, 8, -33, 45, 4, 82, 41, 119, 78, -99, 115, -62, -103, -25, -66, 12, -29, 49};

/* conv: bias, int32[3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const int32_t model_conv_bias[3] = {
    -50, 50, 150};

/* conv: multiplier, float32[3] */
MODEL_WEIGHTS_SECTION _Alignas(8) const float model_conv_multiplier[3] = {
    0x1.0624dep-10f, 0x1.0624dep-9f, 0x1.89374cp-9f};
