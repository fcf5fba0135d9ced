#include "attention/attention_avx512vnni.h"

lb_attention_s8_fn lb_attention_s8__avx512vnni;

void lb_attention_s8__avx512vnni(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask,
                                 void *out, void *scratch, int32_t begin, int32_t end) {
    lb_attention_avx512vnni(p, q, k, v, mask, out, scratch, begin, end);
}
