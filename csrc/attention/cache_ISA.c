/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/lanes16_ISA.h"
#include "attention/cache_lanes.h"

lb_cache_store_f16_fn lb_cache_store_f16__ISA;

void lb_cache_store_f16__ISA(const lb_cache_store_f16_params *p, const float *x, const int32_t *positions, const int32_t *sequences,
                             const int32_t *table, uint16_t *cache, int32_t begin, int32_t end) {
    lb_lanes_cache_store_f16(p, x, positions, sequences, table, cache, begin, end);
}

lb_cache_attention_f16_fn lb_cache_attention_f16__ISA;

void lb_cache_attention_f16__ISA(const lb_cache_attention_f16_params *p, const float *q, const uint16_t *k, const uint16_t *v,
                                 const int32_t *positions, const int32_t *sequences, const int32_t *table, float *out, void *scratch,
                                 int32_t begin, int32_t end) {
    lb_lanes_cache_attention_f16(p, q, k, v, positions, sequences, table, out, scratch, begin, end);
}
