#include "lb.h"
#include "base/f32_avx512.h"

lb_attention_f32_fn lb_attention_f32__avx512;

#include "attention/attention_f32_simd.h"
