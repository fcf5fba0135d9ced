/* Weights of dwconv_s8: as they are, in pairs of rows (avx2), in quads of rows (avx512vnni). */
#include "lb.h"
#include "base/ceil.h"

#include <string.h>

static inline int lb_dw_in_quads(int32_t isa) {
    return isa == LB_ISA_avx512vnni;
}

static inline int lb_dw_in_pairs(int32_t isa) {
    return isa == LB_ISA_avx2;
}

/* The windows whose rows a quad holds: of two, one below the other, where they need no more quads. */
static inline int32_t lb_dw_windows(const lb_dwconv_s8_sizes_params *p) {
    return p->dilation_h == 1 && p->stride_h + p->kernel_h <= 4 * lb_ceil(p->kernel_h, 4) ? 2 : 1;
}

lb_dwconv_s8_sizes_fn lb_dwconv_s8_sizes__ref;

/* Bytes of interleaved rows that stay in the first-level cache; where it has 48 KB and all of a window's rows are in it. */
enum { RING = 16 << 10, QUAD_RING = 24 << 10 };

static void sizes_in_quads(const lb_dwconv_s8_sizes_params *p, int64_t *sizes) {
    const int64_t quads = lb_ceil(p->kernel_h, 4), position = 256 * quads * p->stride_w;
    const int64_t seen = (p->kernel_w - 1) * p->dilation_w / p->stride_w + 4;
    const int64_t room = QUAD_RING * lb_most_of(1, 64 / lb_ceil_to(p->channels, 16)); /* few channels take less */
    const int64_t parts = p->out_w ? lb_ceil(p->out_w, lb_most_of(16, room / position - seen)) : 1;
    const int64_t block = lb_most_of(1, lb_ceil(p->out_w, 4 * parts) * 4);
    sizes[0] = 256 * lb_ceil(p->channels, 64) * (1 + quads * p->kernel_w * lb_dw_windows(p));
    sizes[1] = position * (block + seen);
    sizes[2] = block, sizes[3] = 1, sizes[4] = 4;
}

void lb_dwconv_s8_sizes__ref(const lb_dwconv_s8_sizes_params *p, int64_t *sizes) {
    if (lb_dw_in_quads(p->isa)) {
        sizes_in_quads(p, sizes);
        return;
    }
    const int pairs = lb_dw_in_pairs(p->isa);
    const int64_t seen = lb_least_of(p->kernel_h, p->in_h + 1) / 2 + 1; /* pairs of rows that are not all padding */
    const int64_t edge = (p->kernel_w - 1) * p->dilation_w + 1, fits = RING / (128 * seen) - edge;
    const int64_t most = lb_most_of(8, (fits >= 0 ? fits / p->stride_w : -lb_ceil(-fits, p->stride_w)) + 1);
    const int64_t parts = lb_most_of(1, lb_ceil(p->out_w, most)), block = lb_most_of(1, lb_ceil(p->out_w, 4 * parts) * 4);
    const int64_t columns = (block - 1) * p->stride_w + edge;
    int64_t rows = 1;
    if (parts == 1 && pairs && p->kernel_h == 3 && p->kernel_w == 3 && p->dilation_h == 1 && p->dilation_w == 1) {
        const int64_t high = 2 * (RING / (128 * columns) - 1) - p->kernel_h; /* rows of the image that have room beside a window */
        rows = high < 0 ? 1 : lb_most_of(1, lb_least_of(p->out_h, high / p->stride_h + 1));
    }
    const int64_t c = lb_ceil_to(p->channels, 32), both = (p->kernel_h + 1) / 2 + (p->kernel_h + 2) / 2;
    sizes[0] = pairs ? 4 * c * (1 + both * p->kernel_w) : (int64_t)p->kernel_h * p->kernel_w * p->channels;
    sizes[1] = pairs ? 128 * (((rows - 1) * p->stride_h + p->kernel_h) / 2 + 1) * columns : 0;
    sizes[2] = block, sizes[3] = rows, sizes[4] = rows;
}

lb_dwconv_s8_pack_fn lb_dwconv_s8_pack__ref;

static void pack_pairs(const lb_dwconv_s8_pack_params *p, const int8_t *w, int32_t *sums) {
    const int64_t c = lb_ceil_to(p->channels, 32), upper = (p->kernel_h + 1) / 2, lower = (p->kernel_h + 2) / 2;
    memset(sums, 0, (size_t)(4 * c * (1 + (upper + lower) * p->kernel_w)));
    int16_t *first = (int16_t *)(void *)(sums + c), *pairs[2] = {first, first + upper * p->kernel_w * c * 2};
    for (int64_t i = 0; i < p->kernel_h; i++)
        for (int64_t j = 0; j < p->kernel_w; j++)
            for (int64_t l = 0; l < p->channels; l++) {
                const int8_t v = w[(i * p->kernel_w + j) * p->channels + l];
                sums[l] += v;
                for (int64_t start = 0; start < 2; start++)
                    pairs[start][(((i + start) / 2 * p->kernel_w + j) * c + l) * 2 + (i + start) % 2] = v;
            }
}

static void pack_quads(const lb_dwconv_s8_pack_params *p, const int8_t *w, int32_t *sums) {
    const int64_t blocks = lb_ceil(p->channels, 64), quads = lb_ceil(p->kernel_h, 4), n = lb_dw_windows(p);
    memset(sums, 0, (size_t)(256 * blocks * (1 + quads * p->kernel_w * n)));
    int8_t *to = (int8_t *)(sums + 64 * blocks);
    for (int64_t group = 0; group < 4 * blocks; group++) {
        const int64_t rest = p->channels - group / 4 * 64, size = rest > 32 ? 64 : rest > 16 ? 32 : 16;
        const int64_t first = p->channels < size ? 0 : rest < size ? p->channels - size : group / 4 * 64;
        for (int64_t l = 0; l < 16; l++) {
            const int64_t c = first + (16 * (l / 4) + 4 * (group % 4) + l % 4) % size;
            for (int64_t i = 0; c < p->channels && i < p->kernel_h * n; i++)
                for (int64_t j = 0; j < p->kernel_w; j++) {
                    const int8_t v = w[(i / n * p->kernel_w + j) * p->channels + c];
                    const int64_t row = i / n + i % n * p->stride_h;
                    sums[16 * group + l] += i % n ? 0 : v;
                    to[((((group * quads + row / 4) * p->kernel_w + j) * n + i % n) * 16 + l) * 4 + row % 4] = v;
                }
        }
    }
}

void lb_dwconv_s8_pack__ref(const lb_dwconv_s8_pack_params *p, const int8_t *w, void *packed) {
    if (lb_dw_in_quads(p->isa))
        pack_quads(p, w, packed);
    else if (lb_dw_in_pairs(p->isa))
        pack_pairs(p, w, packed);
    else if (p->channels > 0)
        memcpy(packed, w, (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)p->channels);
}
