#include "linear/dot4/dot4.h"

lb_linear_s8_quads_fn lb_linear_s8_quads__ref;

void lb_linear_s8_quads__ref(const lb_linear_s8_quads_params *p, const int8_t *w, void *packed) {
    const ptrdiff_t depth = lb_quads_up(p->k, 4);
    lb_quads_head *head = packed;
    int32_t *sums = (int32_t *)(void *)(head + 1);
    int8_t *panels = (int8_t *)(sums + lb_quads_up(p->n, LB_QUADS_PANEL));
    memset(packed, 0, (size_t)lb_quads_bytes(p->k, p->n));
    for (ptrdiff_t j = 0; j < p->n; j++) {
        int8_t *column = panels + j / LB_QUADS_PANEL * LB_QUADS_PANEL * depth + j % LB_QUADS_PANEL * 4;
        for (ptrdiff_t i = 0; i < p->k; i++, w++) {
            column[i / 4 * 64 + i % 4] = *w;
            sums[j] += *w;
            head->lowest |= *w == -128;
        }
    }
}
