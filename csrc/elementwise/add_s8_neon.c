#include "lb.h"
#include "base/numerics.h"
#include "base/requantize_neon.h"
#include "elementwise/broadcast.h"

lb_add_s8_fn lb_add_s8__neon;

/* 16 elements from `from` on, or one of them 16 times, as floats times m. */
static inline void load(const int8_t *from, int32_t stride, float m, float32x4_t to[4]) {
    int32x4_t q[4];
    lb_widen16(stride ? vld1q_s8(from) : vld1q_dup_s8(from), q);
    for (int j = 0; j < 4; j++)
        to[j] = vmulq_n_f32(vcvtq_f32_s32(q[j]), m);
}

void lb_add_s8__neon(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(0, p->lo, p->hi);
    const float32x4_t offset = vdupq_n_f32(p->offset);
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        int32_t i = 0;
        for (; i <= r.count - 16; i += 16) {
            float32x4_t u[4], v[4];
            load(a + r.a + i * da, da, p->a_multiplier, u);
            load(b + r.b + i * db, db, p->b_multiplier, v);
            for (int j = 0; j < 4; j++)
                u[j] = vaddq_f32(vaddq_f32(u[j], offset), v[j]);
            vst1q_s8(out + r.at + i, lb_round16(u, &clamp));
        }
        for (; i < r.count; i++)
            out[r.at + i] = (int8_t)lb_add(a[r.a + i * da], b[r.b + i * db], p->a_multiplier, p->b_multiplier, p->offset, p->lo, p->hi);
    }
}
