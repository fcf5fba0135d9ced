/* Which tiles conv3x3_s8 takes, and its weights: transformed by avx2, plain int8 for avx512vnni, which transforms them itself. */
#include "lb.h"
#include "base/ceil.h"

#include <stddef.h>
#include <string.h>

enum { PANEL = 16, WIDTH = 4 };

/* What an instruction set's tiles want. */
typedef struct {
    int32_t step;     /* channels are rounded up to that */
    int32_t rows;     /* tiles that are multiplied at once */
    int32_t most;     /* tiles of a block */
    int32_t in_cache; /* bytes of transformed inputs that stay in the second-level cache */
} lb_tiling;

static inline lb_tiling lb_tiling_of(int32_t isa) {
    if (isa == LB_ISA_avx512vnni)
        return (lb_tiling){32, 14, 7 * 14, 600 << 10};
    return (lb_tiling){PANEL, 6, 48, 300 << 10};
}

static inline int32_t lb_points_of(int32_t tile_h) {
    return 6 * (tile_h + 2);
}

lb_conv3x3_s8_sizes_fn lb_conv3x3_s8_sizes__ref;

static int64_t tiles_of(const lb_conv3x3_s8_sizes_params *p, int32_t high) {
    return p->batch * lb_ceil(p->out_w, WIDTH) * lb_ceil(p->out_h, high);
}

/* Cycles of avx512vnni, measured on a Sapphire Rapids: vpdpwssd does 64 products. */
static double cost_of(const lb_conv3x3_s8_sizes_params *p, int32_t high) {
    const double depth = (double)lb_ceil_to(p->in_c, 32), columns = (double)lb_ceil_to(p->out_c, PANEL), tiles = (double)tiles_of(p, high);
    const double products = (tiles > 6 ? tiles : 6) * depth * columns / 56;
    return lb_points_of(high) * (products + depth * columns / 9 + tiles * (depth / 5 + columns / 2.7));
}

/* The fastest height of those that are exact, or 0 where windows are faster. */
static int32_t height(const lb_conv3x3_s8_sizes_params *p) {
    const int exact4 = p->largest < 1 << 25, exact2 = p->largest < 1 << 27;
    if (!exact2 || p->isa == LB_ISA_ref)
        return 0;
    if (p->isa == LB_ISA_avx512vnni) {
        const double windows = 9.0 * p->batch * p->out_h * p->out_w * p->in_c * p->out_c / 115; /* vpdpbusd does 128 */
        const double high = cost_of(p, 4), low = cost_of(p, 2);
        if (exact4 && high < windows && high <= low)
            return 4;
        return low < windows ? 2 : exact4 && high < windows ? 4 : 0;
    }
    /* With few tiles the weights, eight times as many bytes, cost more than the multiplications saved; then those of low tiles are fewer.
     */
    const int64_t tiles = tiles_of(p, 4);
    return tiles < 4 ? 0 : exact4 && tiles >= 8 ? 4 : 2;
}

void lb_conv3x3_s8_sizes__ref(const lb_conv3x3_s8_sizes_params *p, int64_t *sizes) {
    const lb_tiling t = lb_tiling_of(p->isa);
    const int32_t high = p->tile_h ? p->tile_h : height(p), points = lb_points_of(high);
    const int64_t tiles = high ? tiles_of(p, high) : 0, depth = lb_ceil_to(p->in_c, t.step), panels = lb_ceil(p->out_c, PANEL);
    const int64_t most = lb_most_of(2 * t.rows, t.in_cache / (2 * points * lb_most_of(depth, 1)) / t.rows * t.rows);
    int64_t blocks = lb_ceil(tiles, lb_least_of(t.most, most + 4)); /* a few more are better than a small block after the others */
    int64_t columns = panels * PANEL;
    if (p->threads > 1 && tiles < 24 * p->threads) /* few tiles: the threads share the channels, each weight is read once */
        columns = lb_most_of(PANEL, lb_ceil(p->out_c, PANEL * p->threads) * PANEL);
    else if (p->threads > 1)
        blocks = lb_ceil_to(blocks, p->threads);
    const int64_t block = lb_most_of(1, lb_ceil(tiles, lb_most_of(blocks, 1)));
    const int plain = p->isa == LB_ISA_avx512vnni;
    sizes[0] = plain ? panels * depth / 2 * 9 * 32 : 2 * panels * PANEL * points * (depth + 2);
    sizes[1] = plain ? block * (points * (2 * depth + 128) + 64) + 49152 : points * block * (2 * depth + 68);
    sizes[2] = high, sizes[3] = block, sizes[4] = columns;
}

lb_conv3x3_s8_pack_fn lb_conv3x3_s8_pack__ref;

static const int8_t G[6][3] = {{1, 0, 0}, {-1, -1, -1}, {-1, 1, -1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};
static const int8_t H2[4][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 1}};

/* int8 (panels, pairs of input channels, 3, 3, 16 outputs, 2 inputs). */
static void pack_pairs(const lb_conv3x3_s8_pack_params *p, const int8_t *w, int8_t *to) {
    const int64_t half = lb_ceil(p->in_c, 32) * 16;
    memset(to, 0, (size_t)(lb_ceil(p->out_c, PANEL) * half * 9 * 32));
    for (int64_t o = 0; o < p->out_c; o++)
        for (int64_t j = 0; j < 9; j++)
            for (int64_t c = 0; c < p->in_c; c++)
                to[(((o / PANEL * half + c / 2) * 9 + j) * PANEL + o % PANEL) * 2 + c % 2] = w[(o * 9 + j) * p->in_c + c];
}

/* u = H w G' of one input and output channel, whose weights are `apart`. */
static void transform(const int8_t (*h)[3], int32_t rows, const int8_t *w, ptrdiff_t apart, int16_t *u, ptrdiff_t step) {
    for (int32_t i = 0; i < rows; i++) {
        int32_t t[3];
        for (int32_t j = 0; j < 3; j++)
            t[j] = h[i][0] * w[j * apart] + h[i][1] * w[(3 + j) * apart] + h[i][2] * w[(6 + j) * apart];
        for (int32_t l = 0; l < 6; l++)
            u[(6 * i + l) * step] = (int16_t)(t[0] * G[l][0] + t[1] * G[l][1] + t[2] * G[l][2]);
    }
}

/* (panels, points), each of them 16 sums of products and then (channels / 4, 2, 16 outputs, 2 inputs). */
static void pack_points(const lb_conv3x3_s8_pack_params *p, const int8_t *w, int16_t *to) {
    const int64_t depth = lb_ceil_to(p->in_c, PANEL), panels = lb_ceil(p->out_c, PANEL), points = lb_points_of(p->tile_h);
    const int64_t step = (depth + 2) * PANEL;
    memset(to, 0, (size_t)(2 * panels * points * step));
    for (int64_t o = 0; o < p->out_c; o++)
        for (int64_t c = 0; c < p->in_c; c++)
            transform(p->tile_h == 4 ? G : H2, p->tile_h + 2, w + o * 9 * p->in_c + c, p->in_c,
                      to + o / PANEL * points * step + 2 * PANEL + ((c / 2 ^ 1) * PANEL + o % PANEL) * 2 + c % 2, step);
    for (int64_t i = 0; i < panels * points * PANEL; i++) {
        int16_t *point = to + i / PANEL * step;
        const int16_t *own = point + 2 * PANEL + i % PANEL * 2;
        uint32_t sum = 0;
        for (int64_t c = 0; c < depth; c += 4, own += 4 * PANEL)
            sum -= (uint32_t)(own[0] * own[2 * PANEL]) + (uint32_t)(own[1] * own[2 * PANEL + 1]);
        memcpy(point + i % PANEL * 2, &sum, 4);
    }
}

void lb_conv3x3_s8_pack__ref(const lb_conv3x3_s8_pack_params *p, const int8_t *w, void *packed) {
    if (p->isa == LB_ISA_avx512vnni)
        pack_pairs(p, w, packed);
    else
        pack_points(p, w, packed);
}
