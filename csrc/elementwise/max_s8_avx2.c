#include "lb.h"
#include "elementwise/broadcast.h"
#include "elementwise/bytes_avx2.h"

/* out = `op` of 32 elements of a and b at a time, then of single ones; u, where `wins` says so. */
#define LB_EXTREMUM_S8(op, wins)                                                                                                           \
    const int32_t da = p->a_stride[3], db = p->b_stride[3];                                                                                \
    for (lb_run r; begin < end; begin += r.count) {                                                                                        \
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);                                                                     \
        const int8_t *u = a + r.a, *v = b + r.b;                                                                                           \
        int32_t i = 0;                                                                                                                     \
        for (; i <= r.count - 32; i += 32)                                                                                                 \
            lb_store32(out + r.at + i, op(da ? lb_load32(u + i) : _mm256_set1_epi8(*u), db ? lb_load32(v + i) : _mm256_set1_epi8(*v)));    \
        for (; i < r.count; i++)                                                                                                           \
            out[r.at + i] = u[i * da] wins v[i * db] ? u[i * da] : v[i * db];                                                              \
    }

lb_max_s8_fn lb_max_s8__avx2;

void lb_max_s8__avx2(const lb_max_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin,
                     int32_t end){LB_EXTREMUM_S8(_mm256_max_epi8, >)}

lb_min_s8_fn lb_min_s8__avx2;

void lb_min_s8__avx2(const lb_min_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    LB_EXTREMUM_S8(_mm256_min_epi8, <)
}
