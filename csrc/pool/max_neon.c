#include "lb.h"
#include "base/requantize_neon.h"
#include "base/window.h"

lb_max_pool_s8_fn lb_max_pool_s8__neon;

typedef int8x16_t lb_v16;
#define lb_v16_all(v) vdupq_n_s8(v)
#define lb_v16_max(a, b) vmaxq_s8(a, b)
#define lb_v16_load(from) vld1q_s8(from)
#define lb_v16_store(to, v) vst1q_s8(to, v)

#include "pool/max_pool_16.h"

void lb_max_pool_s8__neon(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    lb_max_pool(p, x, out, begin, end);
}
