#include "linear/dot4/dot4_neon.h"

#include "attention/attention_neon.h"

lb_attention_s8_fn lb_attention_s8__neon;

void lb_attention_s8__neon(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask, void *out,
                           void *scratch, int32_t begin, int32_t end) {
    lb_attention_neon(p, q, k, v, mask, out, scratch, begin, end);
}
