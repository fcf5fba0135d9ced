#include "lb.h"
#include "base/f32_avx512.h"

lb_max_pool_f32_fn lb_max_pool_f32__avx512;

#include "pool/max_pool_f32_simd.h"

lb_reduce_f32_fn lb_reduce_f32__avx512;

#include "pool/reduce_f32_simd.h"
