#include "linear/dot4/dot4.h"

lb_linear_s8_pack_dot4_fn lb_linear_s8_pack_dot4__ref;

void lb_linear_s8_pack_dot4__ref(const lb_linear_s8_pack_dot4_params *p, const int8_t *w, void *packed) {
    const ptrdiff_t depth = lb_dot4_up(p->k, 4);
    lb_dot4_head *head = packed;
    int32_t *sums = (int32_t *)(void *)(head + 1);
    int8_t *panels = (int8_t *)(sums + lb_dot4_up(p->n, LB_DOT4_PANEL));
    memset(packed, 0, (size_t)lb_dot4_bytes(p->k, p->n));
    for (ptrdiff_t j = 0; j < p->n; j++) {
        int8_t *column = panels + j / LB_DOT4_PANEL * LB_DOT4_PANEL * depth + j % LB_DOT4_PANEL * 4;
        for (ptrdiff_t i = 0; i < p->k; i++, w++) {
            column[i / 4 * 64 + i % 4] = *w;
            sums[j] += *w;
            head->lowest |= *w == -128;
        }
    }
}
