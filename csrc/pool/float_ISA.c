/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_max_pool_f32_fn lb_max_pool_f32__ISA;

#include "pool/max_pool_f32_simd.h"

lb_reduce_f32_fn lb_reduce_f32__ISA;

#include "pool/reduce_f32_simd.h"
