#include "lb.h"

lb_table_s8_f32_fn lb_table_s8_f32__ref;

void lb_table_s8_f32__ref(const lb_table_s8_f32_params *p, const int8_t *x, const float *table, float *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = table[x[i] + 128];
}
