#include "lb.h"

#include <string.h>

lb_fill_b8_fn lb_fill_b8__ref;

void lb_fill_b8__ref(const lb_fill_b8_params *p, uint8_t *out, int32_t begin, int32_t end) {
    memset(out + begin, p->value, (size_t)(end - begin));
}
