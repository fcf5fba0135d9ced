#include "lb_schedule_avx2.h"

lb_linear_s8_sizes_fn lb_linear_s8_sizes__avx2;

void lb_linear_s8_sizes__avx2(const lb_linear_s8_sizes_params *p, int64_t *bytes) {
    bytes[0] = lb_weights_bytes(p->k, p->n);
    bytes[1] = lb_rows_bytes(p->rows, p->k);
    bytes[2] = lb_schedule_bytes(p->k);
}
