#include "lb.h"

lb_table_s8_s16_fn lb_table_s8_s16__ref;

void lb_table_s8_s16__ref(const lb_table_s8_s16_params *p, const int8_t *x, const int16_t *table, int16_t *out, int32_t begin,
                          int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = table[x[i] + 128];
}
