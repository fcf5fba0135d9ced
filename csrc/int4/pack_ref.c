/* Layouts of 4-bit weights, for every instruction set: panels of 16 channels (x86), or rows as they are. */
#include "lb.h"
#include "base/ceil.h"
#include "gemm/gemm_s8.h"

#include <stddef.h>
#include <string.h>

enum { GROUP = 32, PANEL = 16, DEEPEST = 1024 };

/* Whether weights stand in panels: on x86. */
static inline int lb_w4_in_panels(int32_t isa) {
    return isa == LB_ISA_avx2 || isa == LB_ISA_avxvnni || isa == LB_ISA_avx512vnni;
}

/* The padded length of a segment, and of all. */
static inline int64_t lb_w4_stride(int32_t k, int32_t segment) {
    return lb_ceil_to(k < segment ? k : segment, GROUP);
}

static inline int64_t lb_w4_depth(int32_t k, int32_t segment) {
    const int32_t last = lb_segments(k, segment) - 1;
    return last * lb_w4_stride(k, segment) + lb_ceil_to(lb_segment_length(k, segment, last), GROUP);
}

lb_w4_sizes_fn lb_w4_sizes__ref;

void lb_w4_sizes__ref(const lb_w4_sizes_params *p, int64_t *sizes) {
    const int64_t depth = lb_w4_depth(p->k, p->segment), segments = lb_segments(p->k, p->segment);
    const int64_t panels = lb_ceil(p->n, PANEL), deep = lb_most_of(DEEPEST, lb_w4_stride(p->k, p->segment));
    if (!lb_w4_in_panels(p->isa)) {
        sizes[0] = p->n * lb_ceil(p->k, 2), sizes[1] = 4 * (int64_t)p->n * segments;
        sizes[2] = 0, sizes[3] = p->isa == LB_ISA_ref ? 0 : p->k;
        return;
    }
    sizes[0] = panels * PANEL * depth / 2, sizes[1] = 4 * panels * PANEL * segments;
    sizes[2] = p->isa == LB_ISA_avx512vnni ? p->rows * (depth + 224) + 36 * deep + 64 * segments + 256 /* two panels are unpacked at once */
                                           : p->rows * (depth + 160) + 18 * deep + 16 * segments;
    sizes[3] = sizes[2] + lb_ceil_to(p->k, 64);
}

lb_w4_pack_fn lb_w4_pack__ref;

static void pack_rows(const lb_w4_pack_params *p, const int8_t *w, uint8_t *to) {
    for (int64_t c = 0; c < p->n; c++)
        for (int64_t i = 0; i < p->k; i += 2)
            *to++ = (uint8_t)((w[c * p->k + i] & 15) | (i + 1 < p->k ? (w[c * p->k + i + 1] & 15) << 4 : 0));
}

/* (panels, groups, 4, 16, 4) bytes of w + 8. */
static void pack_panels(const lb_w4_pack_params *p, const int8_t *w, uint8_t *to) {
    const int64_t depth = lb_w4_depth(p->k, p->segment), stride = lb_w4_stride(p->k, p->segment);
    const int32_t segments = lb_segments(p->k, p->segment);
    memset(to, 0x88, (size_t)(lb_ceil(p->n, PANEL) * PANEL * depth / 2));
    for (int64_t c = 0; c < p->n; c++)
        for (int32_t g = 0; g < segments; g++) {
            const int32_t length = lb_segment_length(p->k, p->segment, g);
            for (int32_t i = 0; i < length; i++) {
                const int64_t at = g * stride + i, byte = at / GROUP * 4 + at % 16 / 4;
                const unsigned v = (unsigned)(w[c * p->k + (int64_t)g * p->segment + i] + 8), high = at % GROUP >= 16;
                uint8_t *own = &to[c / PANEL * PANEL * depth / 2 + (byte * PANEL + c % PANEL) * 4 + at % 4];
                *own = (uint8_t)(high ? (*own & 15) | v << 4 : (*own & 0xF0) | v);
            }
        }
}

void lb_w4_pack__ref(const lb_w4_pack_params *p, const int8_t *w, void *packed) {
    if (lb_w4_in_panels(p->isa))
        pack_panels(p, w, packed);
    else
        pack_rows(p, w, packed);
}

lb_w4_pack_scales_fn lb_w4_pack_scales__ref;

void lb_w4_pack_scales__ref(const lb_w4_pack_scales_params *p, const lb_f32 *scales, lb_f32 *packed) {
    const int64_t segments = lb_segments(p->k, p->segment), panels = lb_w4_in_panels(p->isa) ? lb_ceil(p->n, PANEL) : 0;
    for (int64_t i = 0; i < panels * PANEL * segments; i++)
        packed[i] = lb_f32_of_bits(0);
    for (int64_t c = 0; c < p->n; c++)
        for (int64_t s = 0; s < segments; s++)
            packed[panels ? (c / PANEL * segments + s) * PANEL + c % PANEL : c * segments + s] = scales[c * segments + s];
}

lb_w4_chunk_fn lb_w4_chunk__ref;

enum { MOST_GROUPS = DEEPEST / GROUP };

/* Sums of a group: the largest one of elements % 4 < 2 and of the others, and the least ones, negated. */
typedef struct {
    int64_t of[4];
} bounds;

static bounds bounds_of(const lb_w4_chunk_params *p, const int8_t *w, int32_t count) {
    const int32_t above = 127 - p->x_zero, below = p->x_zero - p->least;
    bounds b = {{0}};
    for (int32_t i = 0; i < count; i++) {
        const int32_t up = w[i] > 0 ? w[i] : 0, down = w[i] < 0 ? -w[i] : 0;
        b.of[i % 4 / 2] += above * up + below * down, b.of[2 + i % 4 / 2] += below * up + above * down;
    }
    return b;
}

void lb_w4_chunk__ref(const lb_w4_chunk_params *p, const int8_t *w, int64_t *chunk) {
    const int32_t segments = lb_segments(p->k, p->segment);
    int overflows[MOST_GROUPS + 1] = {0}; /* whether some run of so many groups, counted from the start of a segment, does */
    for (int64_t c = 0; c < p->n; c++)
        for (int32_t s = 0; s < segments; s++) {
            const int8_t *own = w + c * p->k + (int64_t)s * p->segment;
            const int32_t length = lb_segment_length(p->k, p->segment, s);
            bounds run[MOST_GROUPS + 1];
            for (int32_t group = 0; group * GROUP < length; group++) {
                const int32_t left = length - group * GROUP;
                const bounds b = bounds_of(p, own + group * GROUP, left < GROUP ? left : GROUP);
                for (int32_t n = 1; n <= MOST_GROUPS; n++)
                    for (int32_t i = 0; i < 4; i++) {
                        run[n].of[i] = (group % n ? run[n].of[i] : 0) + b.of[i];
                        overflows[n] |= run[n].of[i] >= 1 << 15;
                    }
            }
        }
    const int64_t most = lb_w4_stride(p->k, p->segment) / GROUP;
    int64_t groups = 1;
    while (groups < MOST_GROUPS && !overflows[groups + 1])
        groups++;
    if (groups < most) {
        const int64_t even = lb_ceil(most, lb_ceil(most, groups)); /* as many chunks, of one length */
        groups = overflows[even] ? groups : even;
    }
    *chunk = GROUP * groups;
}
