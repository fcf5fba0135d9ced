#include "base/ints_avx512.h"
#include "pool/avg_s16_simd.h"

lb_avg_pool_s16_fn lb_avg_pool_s16__avx512;

void lb_avg_pool_s16__avx512(const lb_avg_pool_s16_params *p, const int16_t *x, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    lb_average_words(p, x, out, 2, begin, end);
}

lb_avg_pool_s16_f32_fn lb_avg_pool_s16_f32__avx512;

void lb_avg_pool_s16_f32__avx512(const lb_avg_pool_s16_f32_params *p, const int16_t *x, float *out, void *scratch, int32_t begin,
                                 int32_t end) {
    (void)scratch;
    lb_average_words(p, x, out, 4, begin, end);
}
