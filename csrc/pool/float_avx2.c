#include "lb.h"
#include "base/f32_avx2.h"

lb_max_pool_f32_fn lb_max_pool_f32__avx2;

#include "pool/max_pool_f32_simd.h"

lb_reduce_f32_fn lb_reduce_f32__avx2;

#include "pool/reduce_f32_simd.h"
