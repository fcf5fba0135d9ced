#include "lb_f32_avx512.h"

#include "lb_lstm_f32_simd.h"
