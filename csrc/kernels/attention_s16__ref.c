#include "lb_attention.h"

lb_attention_s16_fn lb_attention_s16__ref;

void lb_attention_s16__ref(const lb_attention_s16_params *p, const int16_t *q, const int16_t *k, const int16_t *v, const void *mask,
                           void *out, void *scratch, int32_t begin, int32_t end) {
    lb_attention_ref(p, sizeof *q, q, k, v, mask, out, scratch, begin, end);
}
