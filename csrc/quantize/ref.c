#include "lb.h"
#include "base/numerics.h"

#define LB_REQUANTIZE(contract, in_type, out_type)                                                                                         \
    void lb_##contract##__ref(const lb_##contract##_params *p, const in_type *x, out_type *out, int32_t begin, int32_t end) {              \
        for (int32_t i = begin; i < end; i++)                                                                                              \
            out[i] = (out_type)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);                                    \
    }

#define LB_DEQUANTIZE(contract, in_type)                                                                                                   \
    void lb_##contract##__ref(const lb_##contract##_params *p, const in_type *x, lb_f32 *out, int32_t begin, int32_t end) {                \
        for (int32_t i = begin; i < end; i++)                                                                                              \
            out[i] = lb_dequantize(x[i], p->scale, p->zero_point);                                                                         \
    }

lb_quantize_f32_s8_fn lb_quantize_f32_s8__ref; /* the compiler checks the definition against the contract */

void lb_quantize_f32_s8__ref(const lb_quantize_f32_s8_params *p, const lb_f32 *x, int8_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = (int8_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}

lb_quantize_f32_s16_fn lb_quantize_f32_s16__ref;

void lb_quantize_f32_s16__ref(const lb_quantize_f32_s16_params *p, const lb_f32 *x, int16_t *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        out[i] = (int16_t)lb_quantize(x[i], p->scale, p->zero_point, p->lo, p->hi);
}

lb_dequantize_s8_f32_fn lb_dequantize_s8_f32__ref;

LB_DEQUANTIZE(dequantize_s8_f32, int8_t)

lb_dequantize_s16_f32_fn lb_dequantize_s16_f32__ref;

LB_DEQUANTIZE(dequantize_s16_f32, int16_t)

lb_requantize_s8_fn lb_requantize_s8__ref;

LB_REQUANTIZE(requantize_s8, int8_t, int8_t)

lb_requantize_s8_s16_fn lb_requantize_s8_s16__ref;

LB_REQUANTIZE(requantize_s8_s16, int8_t, int16_t)

lb_requantize_s16_s8_fn lb_requantize_s16_s8__ref;

LB_REQUANTIZE(requantize_s16_s8, int16_t, int8_t)

lb_requantize_s16_fn lb_requantize_s16__ref;

LB_REQUANTIZE(requantize_s16, int16_t, int16_t)

lb_cast_int_f32_fn lb_cast_int_f32__ref;

void lb_cast_int_f32__ref(const lb_cast_int_f32_params *p, const void *x, lb_f32 *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++)
        switch (p->x_bytes) {
        case 1:
            out[i] = lb_f32_from_s32(((const int8_t *)x)[i]);
            break;
        case 2:
            out[i] = lb_f32_from_s32(((const int16_t *)x)[i]);
            break;
        case 4:
            out[i] = lb_f32_from_s32(((const int32_t *)x)[i]);
            break;
        default:
            out[i] = lb_f32_from_s64(((const int64_t *)x)[i]);
        }
}
