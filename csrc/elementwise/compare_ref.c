/* Comparisons of one type as a kernel: the bodies are alike, the element is not. */
#include "lb.h"
#include "elementwise/broadcast.h"

enum { LB_EQUAL, LB_NOT_EQUAL, LB_LESS, LB_LESS_EQUAL, LB_GREATER }; /* the last kind: greater or equal */

#define LB_DEFINE_COMPARE(contract, element)                                                                                               \
    static int contract##_holds(int32_t kind, element a, element b) {                                                                      \
        switch (kind) {                                                                                                                    \
        case LB_EQUAL:                                                                                                                     \
            return a == b;                                                                                                                 \
        case LB_NOT_EQUAL:                                                                                                                 \
            return a != b;                                                                                                                 \
        case LB_LESS:                                                                                                                      \
            return a < b;                                                                                                                  \
        case LB_LESS_EQUAL:                                                                                                                \
            return a <= b;                                                                                                                 \
        case LB_GREATER:                                                                                                                   \
            return a > b;                                                                                                                  \
        default:                                                                                                                           \
            return a >= b;                                                                                                                 \
        }                                                                                                                                  \
    }                                                                                                                                      \
    void lb_##contract##__ref(const lb_##contract##_params *p, const element *a, const element *b, uint8_t *out, int32_t begin,            \
                              int32_t end) {                                                                                               \
        for (lb_run r; begin < end; begin += r.count) {                                                                                    \
            r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                 \
            for (int32_t i = 0; i < r.count; i++)                                                                                          \
                out[r.at + i] = (uint8_t)contract##_holds(p->kind, a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]]);              \
        }                                                                                                                                  \
    }

lb_compare_f32_fn lb_compare_f32__ref;

LB_DEFINE_COMPARE(compare_f32, float)

lb_compare_s32_fn lb_compare_s32__ref;

LB_DEFINE_COMPARE(compare_s32, int32_t)

lb_compare_s64_fn lb_compare_s64__ref;

LB_DEFINE_COMPARE(compare_s64, int64_t)
