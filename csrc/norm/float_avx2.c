#include "lb.h"
#include "base/f32_avx2.h"

lb_layer_norm_f32_fn lb_layer_norm_f32__avx2;

#include "norm/layer_norm_f32_simd.h"

lb_group_norm_f32_fn lb_group_norm_f32__avx2;

#include "norm/group_norm_f32_simd.h"
