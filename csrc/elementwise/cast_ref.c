#include "lb.h"

#include <stdint.h>

lb_cast_fn lb_cast__ref;

enum { FLOAT, S64, S32, S16, S8, U8, BOOL };

static int64_t whole(int32_t kind, const void *x, int32_t i) {
    switch (kind) {
    case S64:
        return ((const int64_t *)x)[i];
    case S32:
        return ((const int32_t *)x)[i];
    case S16:
        return ((const int16_t *)x)[i];
    case S8:
        return ((const int8_t *)x)[i];
    case FLOAT: {
        const float v = ((const float *)x)[i];
        return v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : INT64_MIN;
    }
    default:
        return ((const uint8_t *)x)[i];
    }
}

/* The low bits as a number with a sign, without leaving the range of a type on the way. */
static int64_t low(int64_t v, int bits) {
    const uint64_t sign = (uint64_t)1 << (bits - 1), part = (uint64_t)v & ((sign << 1) - 1);
    return (int64_t)(part ^ sign) - (int64_t)sign;
}

void lb_cast__ref(const lb_cast_params *p, const void *x, void *out, int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; i++) {
        if (p->from == FLOAT && (p->to == FLOAT || p->to == BOOL)) {
            const float v = ((const float *)x)[i];
            if (p->to == FLOAT)
                ((float *)out)[i] = v;
            else
                ((uint8_t *)out)[i] = v != 0.0f;
            continue;
        }
        const int64_t v = whole(p->from, x, i);
        switch (p->to) {
        case FLOAT:
            ((float *)out)[i] = (float)v;
            break;
        case S64:
            ((int64_t *)out)[i] = v;
            break;
        case S32:
            ((int32_t *)out)[i] = (int32_t)low(v, 32);
            break;
        case S16:
            ((int16_t *)out)[i] = (int16_t)low(v, 16);
            break;
        case S8:
            ((int8_t *)out)[i] = (int8_t)low(v, 8);
            break;
        case U8:
            ((uint8_t *)out)[i] = (uint8_t)((uint64_t)v & 255);
            break;
        default:
            ((uint8_t *)out)[i] = v != 0;
        }
    }
}
