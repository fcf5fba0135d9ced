/* Convolutions of 16-bit images, every instruction set against `ref`: any geometry, weights of 8 and 16 bits, results of every kind.
 * Inputs are of exactly their size, so that sanitizers see an element too many. */
#include "test_support.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 80, OUT = 1 << 17 };

static int64_t bias[MAX_CHANNELS];
static float multiplier[MAX_CHANNELS];

static void *room(int64_t bytes) {
    void *block = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    if (!block)
        abort();
    memset(block, 0, (size_t)bytes);
    return block;
}

/* Random words, or now and then only the extremes. The caller frees them. */
static int16_t *words_of(int64_t n, int32_t least, int32_t most) {
    int16_t *to = malloc(n ? 2 * (size_t)n : 2);
    if (!to)
        abort();
    const int extremes = random_int(0, 3) == 0;
    for (int64_t i = 0; i < n; i++)
        to[i] = (int16_t)(extremes ? (random_u32() & 1 ? most : least) : random_int(least, most));
    return to;
}

static int32_t up(int32_t v, int32_t to) {
    return (v + to - 1) / to * to;
}

/* A weight's part in a plane: the low byte, or what is left of it. */
static int16_t part(int32_t v, int32_t plane, int32_t planes) {
    const int32_t low = planes == 2 ? ((v + 128) & 255) - 128 : v;
    return (int16_t)(plane ? (v - low) / 256 : low);
}

/* Where sums may leave 32 bits, `products` says that it is the bias alone. */
static void put_head(char *to, const lb_conv_s16_params *p, int products) {
    const int32_t head[2] = {p->weight_bytes, p->weight_bytes == 1 ? (p->sum_bytes == 4 ? 1 : products ? 2 : 0) : 0};
    memcpy(to, head, sizeof head);
}

/* Weights (out_c, k) as conv_s16 wants them on x86. */
static void *packed_groups(const lb_conv_s16_params *p, const int16_t *w, int products) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), planes = p->weight_bytes;
    const int32_t columns = up(n, 16), depth = up(k, 2), size = 64 + 8 * columns + 2 * planes * columns * depth;
    char *to = room((int64_t)size * p->groups);
    for (int32_t g = 0; g < p->groups; g++) {
        char *at = to + g * size;
        put_head(at, p, products);
        int64_t *sums = (int64_t *)(void *)(at + 64);
        int16_t *panels = (int16_t *)(void *)(sums + columns);
        for (int32_t j = 0; j < n; j++)
            for (int32_t i = 0; i < k; i++) {
                const int16_t v = w[(g * n + j) * k + i];
                sums[j] += v;
                for (int32_t plane = 0; plane < planes; plane++)
                    panels[(plane * columns + j / 16 * 16) * depth + i / 2 * 32 + j % 16 * 2 + i % 2] = part(v, plane, planes);
            }
    }
    return to;
}

/* Weights (taps, channels) as dwconv_s16 wants them on x86, in groups of 16 or 32 channels. */
static void *packed_pairs(const lb_conv_s16_params *p, const int16_t *w, int32_t group, int products) {
    const int32_t taps = p->kernel_h * p->kernel_w, c = up(p->out_c, group), planes = p->weight_bytes;
    const int32_t high = p->kernel_h > 1, pairs = high ? (p->kernel_h + 1) / 2 * p->kernel_w : (p->kernel_w + 1) / 2;
    char *to = room(64 + 8 * c + (int64_t)planes * pairs * c * 4);
    put_head(to, p, products);
    int64_t *sums = (int64_t *)(void *)(to + 64);
    int16_t *parts = (int16_t *)(void *)(sums + c);
    for (int32_t t = 0; t < taps; t++)
        for (int32_t j = 0; j < p->out_c; j++) {
            const int16_t v = w[t * p->out_c + j];
            sums[j] += v;
            const int32_t row = t / p->kernel_w, column = t % p->kernel_w, second = high ? row % 2 : column % 2;
            const int32_t pair = high ? row / 2 * p->kernel_w + column : column / 2;
            const int32_t lane = j / 4 % 2 * (group / 2) + j % group / 8 * 4 + j % 4;
            for (int32_t plane = 0; plane < planes; plane++)
                parts[((plane * pairs + pair) * c + j / group * group + lane) * 2 + second] = part(v, plane, planes);
        }
    return to;
}

static int is_plain(const lb_kernel *k) {
    return strncmp(k->isa->name, "avx", 3) != 0;
}

static void test_conv_s16(const lb_kernel *ref, const lb_kernel *k) {
    static const int32_t channels[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 32, 33, 48, 65}, bytes[] = {1, 2, 4};
    static unsigned char want[OUT], got[sizeof want];
    const int alone = strncmp(k->contract->name, "dw", 2) == 0;
    for (int round = 0; round < 300; round++) {
        lb_conv_s16_params p = {.batch = random_int(0, 2), .in_h = random_int(1, 8), .in_w = random_int(1, 10)};
        p.kernel_h = random_int(1, 5), p.kernel_w = random_int(1, 5);
        if (round % 20 == 0)
            p.in_h = p.kernel_h = 1, p.kernel_w = 300, p.in_w = 310; /* more taps than are done at once */
        p.groups = alone ? channels[random_int(0, 12)] : random_int(0, 2) ? 1 : random_int(2, 4);
        p.in_c = p.groups * (alone ? 1 : random_int(1, round % 20 ? 20 : 2)), p.out_c = p.groups * (alone ? 1 : random_int(1, 18));
        if (!alone && p.groups == 1)
            p.out_c = channels[random_int(0, 12)];
        p.stride_h = random_int(1, 3), p.stride_w = random_int(1, 3);
        p.dilation_h = random_int(0, 3) ? 1 : 2, p.dilation_w = random_int(0, 3) || round % 20 == 0 ? 1 : 2;
        p.pad_h = random_int(0, 3), p.pad_w = random_int(0, 3);
        const int32_t high = p.in_h + p.pad_h + random_int(0, 2) - (p.kernel_h - 1) * p.dilation_h - 1;
        const int32_t wide = p.in_w + p.pad_w + random_int(0, 2) - (p.kernel_w - 1) * p.dilation_w - 1;
        if (high < 0 || wide < 0)
            continue;
        p.out_h = high / p.stride_h + 1, p.out_w = wide / p.stride_w + 1;
        p.block = random_int(1, 60), p.out_stride = p.out_c + random_int(0, 1) * 5;
        p.weight_bytes = random_int(1, 2), p.out_bytes = bytes[random_int(0, 2)];
        const int32_t depth = p.kernel_h * p.kernel_w * (p.in_c / p.groups), half = p.out_bytes == 1 ? 128 : 32768;
        p.sum_bytes = depth <= 250 && random_int(0, 1) ? 4 : 8; /* 250 * 2^16 * 2^7 + 2^16 is less than 2^31 */
        const int products = depth <= 250;                      /* without their bias these stay within 32 bits */
        p.x_zero = random_int(0, 1) ? 0 : random_int(-32768, 32767);
        p.lo = random_int(-half, 0), p.hi = random_int(0, half - 1), p.y_zero = random_int(p.lo, p.hi);
        int16_t *x = words_of((int64_t)p.batch * p.in_h * p.in_w * p.in_c, -32768, 32767);
        const int32_t most = p.weight_bytes == 1 || p.sum_bytes == 4 ? 127 : 32767;
        int16_t *w = words_of((int64_t)p.out_c * depth, -most - 1, most);
        int8_t *narrow = malloc((size_t)(p.out_c * depth));
        if (!narrow)
            abort();
        for (int32_t i = 0; i < p.out_c * depth; i++)
            narrow[i] = (int8_t)w[i];
        for (int32_t i = 0; i < p.out_c; i++) {
            bias[i] = p.sum_bytes == 4 ? random_int(-65536, 65535) : random_int(-65536, 65535) * ((int64_t)1 << random_int(0, 33));
            multiplier[i] = (float)random_int(1, 1 << 20) * (random_int(0, 7) ? 1e-12f : 1e-3f);
        }
        const int32_t group = strncmp(k->isa->name, "avx512", 6) == 0 ? 32 : 16;
        void *packed = alone ? packed_pairs(&p, w, group, products) : packed_groups(&p, w, products);
        void *scratch = room(alone ? 18 * up(p.out_c, group) : 96 * (int64_t)up(depth, 2) + 64);
        const int32_t pixels = p.batch * p.out_h * p.out_w, items = (pixels + p.block - 1) / p.block,
                      cut = items ? random_int(0, items) : 0;
        if ((size_t)pixels * (size_t)p.out_stride * 4 > sizeof want)
            abort();
        memset(want, 0xA5, sizeof want), memset(got, 0xA5, sizeof got);
        void *plain = p.weight_bytes == 1 ? (void *)narrow : (void *)w, *args[6] = {x, plain, bias, multiplier, want, scratch};
        ref->call(&p, args, 0, items);
        args[1] = is_plain(k) ? plain : packed, args[4] = got;
        k->call(&p, args, cut, items);
        k->call(&p, args, 0, cut);
        expect_equal(k, want, got, sizeof want, 0);
        free(x), free(w), free(narrow), free(packed), free(scratch);
    }
}
TESTED_BY(conv_s16, test_conv_s16)
TESTED_BY(dwconv_s16, test_conv_s16)
