/* The end of integer layers on NEON: what lb_requantize computes, 16 at a time. fcvtns rounds ties to even, saturates, and makes 0 of NaN;
 * then int32 -> int16 saturates, the zero point is added with saturation, int16 -> int8 saturates, and lo and hi follow: the same as
 * clamp(rne(v) + zero_point). */
#ifndef LB_REQUANTIZE_NEON_H
#define LB_REQUANTIZE_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int16x8_t zero_point;
    int8x16_t lo, hi;
} lb_clamp16;

static inline lb_clamp16 lb_clamp16_of(int32_t zero_point, int32_t lo, int32_t hi) {
    return (lb_clamp16){vdupq_n_s16((int16_t)zero_point), vdupq_n_s8((int8_t)lo), vdupq_n_s8((int8_t)hi)};
}

/* 16 reals, rounded and clamped. */
static inline int8x16_t lb_round16(const float32x4_t v[4], const lb_clamp16 *c) {
    const int16x8_t low = vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(v[0])), vcvtnq_s32_f32(v[1]));
    const int16x8_t high = vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(v[2])), vcvtnq_s32_f32(v[3]));
    const int8x16_t bytes = vqmovn_high_s16(vqmovn_s16(vqaddq_s16(low, c->zero_point)), vqaddq_s16(high, c->zero_point));
    return vminq_s8(vmaxq_s8(bytes, c->lo), c->hi);
}

/* 16 bytes as four times four int32. */
static inline void lb_widen16(int8x16_t v, int32x4_t to[4]) {
    const int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_high_s8(v);
    to[0] = vmovl_s16(vget_low_s16(low)), to[1] = vmovl_high_s16(low);
    to[2] = vmovl_s16(vget_low_s16(high)), to[3] = vmovl_high_s16(high);
}

/* The first `count` bytes of v. */
static inline void lb_store_bytes(int8_t *out, int8x16_t v, ptrdiff_t count) {
    if (count >= 16) {
        vst1q_s8(out, v);
        return;
    }
    int8_t bytes[16];
    vst1q_s8(bytes, v);
    memcpy(out, bytes, (size_t)count);
}

#endif
