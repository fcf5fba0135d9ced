#include "attention/attention_shared.h"

lb_attention_s8_fn lb_attention_s8__ref;

void lb_attention_s8__ref(const lb_attention_s8_params *p, const int8_t *q, const int8_t *k, const int8_t *v, const void *mask, void *out,
                          void *scratch, int32_t begin, int32_t end) {
    lb_attention_ref(p, sizeof *q, q, k, v, mask, out, scratch, begin, end);
}

lb_attention_s16_fn lb_attention_s16__ref;

void lb_attention_s16__ref(const lb_attention_s16_params *p, const int16_t *q, const int16_t *k, const int16_t *v, const void *mask,
                           void *out, void *scratch, int32_t begin, int32_t end) {
    lb_attention_ref(p, sizeof *q, q, k, v, mask, out, scratch, begin, end);
}
