#include "pool/avg_pool_avx2.h"

lb_avg_pool_s8_fn lb_avg_pool_s8__avx2;

void lb_avg_pool_s8__avx2(const lb_avg_pool_s8_params *p, const int8_t *x, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_averages(0, p, x, out, begin, end);
}

lb_avg_pool_s8_f32_fn lb_avg_pool_s8_f32__avx2;

void lb_avg_pool_s8_f32__avx2(const lb_avg_pool_s8_f32_params *p, const int8_t *x, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_averages(1, p, x, out, begin, end);
}
