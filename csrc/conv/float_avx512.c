#include "lb.h"
#include "base/f32_avx512.h"

lb_conv_f32_fn lb_conv_f32__avx512;

#include "conv/conv_f32_simd.h"

lb_conv_transpose_f32_fn lb_conv_transpose_f32__avx512;

#include "conv/conv_transpose_f32_simd.h"
