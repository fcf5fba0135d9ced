#include "lb.h"

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

lb_copy_b8_fn lb_copy_b8__avx2;

/* Where the bytes of three planes go: byte i of vector v takes pixel (16 v + i) / 3 of plane (16 v + i) % 3. */
typedef struct {
    __m128i from[3][3]; /* vector, plane */
} lb_order;

static lb_order order_of_three(void) {
    lb_order order;
    for (int v = 0; v < 3; v++)
        for (int plane = 0; plane < 3; plane++) {
            uint8_t bytes[16];
            for (int i = 0; i < 16; i++)
                bytes[i] = (uint8_t)((16 * v + i) % 3 == plane ? (16 * v + i) / 3 : 0x80); /* 0x80 gives 0 */
            memcpy(&order.from[v][plane], bytes, sizeof bytes);
        }
    return order;
}

/* Pixels of three planes, `apart` bytes from each other, interleaved: an image of three channels becomes channels last. */
static void three(const lb_order *order, const uint8_t *x, ptrdiff_t apart, uint8_t *out, int32_t count) {
    int32_t i = 0;
    for (; i <= count - 16; i += 16) {
        __m128i plane[3];
        for (int c = 0; c < 3; c++)
            plane[c] = _mm_loadu_si128((const __m128i *)(const void *)(x + i + c * apart));
        for (int v = 0; v < 3; v++) {
            const __m128i first = _mm_shuffle_epi8(plane[0], order->from[v][0]), second = _mm_shuffle_epi8(plane[1], order->from[v][1]);
            const __m128i all = _mm_or_si128(_mm_or_si128(first, second), _mm_shuffle_epi8(plane[2], order->from[v][2]));
            _mm_storeu_si128((__m128i *)(void *)(out + 3 * i + 16 * v), all);
        }
    }
    for (; i < count; i++)
        for (int c = 0; c < 3; c++)
            out[3 * i + c] = x[i + c * apart];
}

/* The last axis. */
static void row(const uint8_t *x, uint8_t *out, ptrdiff_t from, ptrdiff_t to, int32_t count) {
    if (from == 1 && to == 1)
        memcpy(out, x, (size_t)count);
    else
        for (ptrdiff_t i = 0; i < count; i++)
            out[i * to] = x[i * from];
}

void lb_copy_b8__avx2(const lb_copy_b8_params *p, const uint8_t *x, uint8_t *out, int32_t begin, int32_t end) {
    const int32_t *n = p->shape, *s = p->x_stride, *t = p->out_stride;
    const int planes = n[5] == 3 && t[5] == 1 && s[4] == 1 && t[4] == 3;
    const lb_order order = order_of_three();
    for (int32_t a = begin; a < end; a++)
        for (int32_t b = 0; b < n[1]; b++)
            for (int32_t c = 0; c < n[2]; c++)
                for (int32_t d = 0; d < n[3]; d++) {
                    const uint8_t *from =
                        x + p->x_offset + (ptrdiff_t)a * s[0] + (ptrdiff_t)b * s[1] + (ptrdiff_t)c * s[2] + (ptrdiff_t)d * s[3];
                    uint8_t *to =
                        out + p->out_offset + (ptrdiff_t)a * t[0] + (ptrdiff_t)b * t[1] + (ptrdiff_t)c * t[2] + (ptrdiff_t)d * t[3];
                    if (planes)
                        three(&order, from, s[5], to, n[4]);
                    else
                        for (int32_t e = 0; e < n[4]; e++)
                            row(from + (ptrdiff_t)e * s[4], to + (ptrdiff_t)e * t[4], s[5], t[5], n[5]);
                }
}
