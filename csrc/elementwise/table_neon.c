#include "lb.h"

#include <arm_neon.h>

lb_table_s8_fn lb_table_s8__neon;

/* Four tables of 64 entries: for an index out of range tbl gives 0, and tbx keeps the old value. */
void lb_table_s8__neon(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    int8x16x4_t part[4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            part[i].val[j] = vld1q_s8(table + 64 * i + 16 * j);
    int32_t i = begin;
    for (; i <= end - 16; i += 16) {
        const uint8x16_t at = veorq_u8(vreinterpretq_u8_s8(vld1q_s8(x + i)), vdupq_n_u8(0x80));
        int8x16_t y = vqtbl4q_s8(part[0], at);
        y = vqtbx4q_s8(y, part[1], vsubq_u8(at, vdupq_n_u8(64)));
        y = vqtbx4q_s8(y, part[2], vsubq_u8(at, vdupq_n_u8(128)));
        y = vqtbx4q_s8(y, part[3], vsubq_u8(at, vdupq_n_u8(192)));
        vst1q_s8(out + i, y);
    }
    for (; i < end; i++)
        out[i] = table[x[i] + 128];
}
