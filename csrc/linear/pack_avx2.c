#include "linear/avx2/maddubs_weights_schedule_avx2.h"
#include "gemm/gemm_s8_pack_avx2.h"

lb_linear_s8_sizes_fn lb_linear_s8_sizes__avx2;

void lb_linear_s8_sizes__avx2(const lb_linear_s8_sizes_params *p, int64_t *bytes) {
    bytes[0] = lb_weights_bytes(p->k, p->n);
    bytes[1] = lb_rows_bytes(p->rows, p->k);
    bytes[2] = lb_schedule_bytes(p->k);
}

lb_linear_s8_pack_fn lb_linear_s8_pack__avx2;

enum { FEW_ROWS = 4, SHORT = 48, MOST_QUADS = 1 << 16 };

/* Time of six rows, in hundredths of a nanosecond on the machine where it was measured; only their ratios matter. A quad of maddubs_w, how
 * much more it takes to turn one, what ends a group, and what eight columns cost more than half of 16 at their end; four k and eight
 * columns of madd16, and of maddubs_s8, and what its ends cost more; and once for all columns four k of a row in each form. */
enum {
    QUAD = 168,
    TURNED = 45,
    GROUP = 92,
    PANEL_END = 700,
    MADD16 = 234,
    MADDUBS_S8 = 179,
    MADDUBS_S8_END = 500,
    MADDUBS_W_ROW = 35,
    MADD16_ROW = 108,
    MADDUBS_S8_ROW = 1700
};

static void add_up(const lb_linear_s8_pack_params *p, const int8_t *w, int32_t *sums) {
    memset(sums, 0, 4 * (size_t)lb_round_up(p->n, LB_PANEL));
    for (int32_t j = 0; j < p->n; j++)
        for (int32_t i = 0; i < p->k; i++)
            sums[j] += w[(ptrdiff_t)j * p->k + i];
}

/* What some panels of eight columns cost. madd16 and maddubs_s8 come by 16. */
static int64_t madd16_cost(const lb_linear_s8_pack_params *p, int64_t panels) {
    const int64_t quads = lb_round_up(p->k, LB_STEP) / 4;
    return quads * MADD16_ROW + lb_round_up(panels, 2) * quads * MADD16;
}

static int64_t maddubs_s8_cost(const lb_linear_s8_pack_params *p, int64_t panels) {
    const int64_t quads = lb_round_up(p->k, LB_STEP) / 4;
    return quads * MADDUBS_S8_ROW + lb_round_up(panels, 2) * (quads * MADDUBS_S8 + MADDUBS_S8_END);
}

/* Bytes used, or 0 where maddubs_w does not fit or costs more than `other`: nothing is lost then. */
static ptrdiff_t pack_maddubs_w(const lb_linear_s8_pack_params *p, const int8_t *w, char *packed, void *scratch, int64_t other) {
    const lb_schedule s = lb_schedule_at(scratch, p->k);
    const ptrdiff_t front = lb_weights_front(p->n), panels = lb_maddubs_w_panels(p->n), room = lb_weights_bytes(p->k, p->n) / 32;
    const int64_t quads = lb_round_up(p->k, 4) / 4;
    lb_maddubs_w_panel *panel = (lb_maddubs_w_panel *)(void *)(packed + front);
    int32_t *added = lb_weight_added(packed, p->n);
    const ptrdiff_t start = lb_round_up(front + panels * lb_maddubs_w_chunks(p->k) * (ptrdiff_t)sizeof *panel, 64) / 32;
    if (quads > MOST_QUADS || !quads || start > room)
        return 0;
    int64_t cost = quads * MADDUBS_W_ROW;
    uint32_t at = (uint32_t)start;
    memset(packed + front, 0, (size_t)(32 * start - front));
    memset(added, 0, 4 * (size_t)lb_round_up(p->n, LB_PANEL));
    for (ptrdiff_t i = 0; i < panels; i++) {
        const int32_t left = (int32_t)i * LB_MADDUBS_W_COLUMNS,
                      width = p->n - left < LB_MADDUBS_W_COLUMNS ? p->n - left : LB_MADDUBS_W_COLUMNS;
        for (int32_t first = 0; first < p->k; first += LB_MADDUBS_W_CHUNK, panel++) {
            const uint32_t items = lb_items_of(w + (ptrdiff_t)left * p->k, p->k, first, width, s.items), groups = lb_group(&s, items);
            if (at + items + groups + (2 * items + 31) / 32 > room)
                return 0;
            at = lb_put_groups(&s, groups, packed, at, panel, added + left);
            cost += (int64_t)items * QUAD + (int64_t)groups * GROUP + (int64_t)lb_turned(panel) * TURNED;
        }
        cost += PANEL_END;
        if (i % 4 == 3 && cost / (i + 1) > other / panels + other / panels / 8)
            return 0; /* hopeless */
    }
    return cost < other ? 32 * (ptrdiff_t)at : 0;
}

static ptrdiff_t pack_nibbles(const lb_linear_s8_pack_params *p, const int8_t *w, char *packed) {
    const ptrdiff_t front = lb_weights_front(p->n), depth = lb_round_up(p->k, LB_NIBBLE_STEP), bytes = lb_round_up(p->n, LB_PANEL) * depth;
    memset(lb_weight_added(packed, p->n), 0, 4 * (size_t)lb_round_up(p->n, LB_PANEL));
    memset(packed + front, 0, (size_t)bytes);
    for (int32_t j = 0; j < p->n; j++) {
        char *column = packed + front + j / LB_PANEL * LB_PANEL * depth + j % LB_PANEL * 4;
        for (int32_t i = 0; i < p->k; i += 4)
            memcpy(column + i * LB_PANEL, w + (ptrdiff_t)j * p->k + i, (size_t)(p->k - i < 4 ? p->k - i : 4));
    }
    return front + bytes;
}

static ptrdiff_t pack_gemv(const lb_linear_s8_pack_params *p, const int8_t *w, char *packed) {
    const ptrdiff_t front = lb_weights_front(p->n), depth = lb_round_up(p->k, LB_GEMV_STEP);
    const ptrdiff_t bytes = lb_round_up(p->n, LB_GEMV_COLUMNS) * depth;
    memset(lb_weight_added(packed, p->n), 0, 4 * (size_t)lb_round_up(p->n, LB_PANEL));
    const int8_t flip = p->activations == 1 ? 0 : -128;
    memset(packed + front, flip, (size_t)bytes);
    for (int32_t j = 0; j < p->n; j++) {
        char *column = packed + front + j / LB_GEMV_COLUMNS * LB_GEMV_COLUMNS * depth + j % LB_GEMV_COLUMNS * 4;
        for (int32_t i = 0; i < p->k; i++)
            column[i / 4 * 4 * LB_GEMV_COLUMNS + i % 4] = (char)(w[(ptrdiff_t)j * p->k + i] ^ flip);
    }
    return front + bytes;
}

static ptrdiff_t pack_maddubs_s8(const lb_linear_s8_pack_params *p, const int8_t *w, char *packed) {
    const ptrdiff_t front = lb_weights_front(p->n), depth = lb_round_up(p->k, LB_STEP);
    const ptrdiff_t bytes = lb_round_up(p->n, LB_PANEL) * depth;
    memset(lb_weight_added(packed, p->n), 0, 4 * (size_t)lb_round_up(p->n, LB_PANEL));
    memset(packed + front, 128, (size_t)bytes);
    for (int32_t j = 0; j < p->n; j++) {
        char *column = packed + front + j / LB_PANEL * LB_PANEL * depth + j % LB_PANEL * 4;
        for (int32_t i = 0; i < p->k; i++)
            column[i / 4 * 4 * LB_PANEL + i % 4] = (char)(w[(ptrdiff_t)j * p->k + i] ^ -128);
    }
    return front + bytes;
}

static ptrdiff_t pack_plain(const lb_linear_s8_pack_params *p, const int8_t *w, char *packed) {
    const ptrdiff_t front = lb_weights_front(p->n), depth = lb_round_up(p->k, 2), columns = lb_round_up(p->n, LB_PANEL);
    memset(lb_weight_added(packed, p->n), 0, 4 * (size_t)columns);
    memset(packed + front, 0, (size_t)(2 * columns * depth));
    int16_t *panels = (int16_t *)(void *)(packed + front);
    for (int32_t j = 0; j < p->n; j++)
        for (int32_t i = 0; i < p->k; i++)
            panels[j / LB_PANEL * LB_PANEL * depth + (i / 2 * LB_PANEL + j % LB_PANEL) * 2 + i % 2] = w[(ptrdiff_t)j * p->k + i];
    return front + 2 * columns * depth;
}

static ptrdiff_t pack_madd16(const lb_linear_s8_pack_params *p, const int8_t *w, char *packed) {
    const ptrdiff_t front = lb_weights_front(p->n);
    const lb_gemm_s8_pack_params b = {.row_stride = 1, .column_stride = p->k, .k = p->k, .n = p->n, .segment = p->k ? p->k : 1};
    lb_pack_panels(&b, w, NULL, lb_weight_added(packed, p->n), (int16_t *)(void *)(packed + front));
    return front + 2 * lb_round_up(p->n, LB_PANEL) * lb_round_up(p->k, LB_STEP);
}

void lb_linear_s8_pack__avx2(const lb_linear_s8_pack_params *p, const int8_t *w, void *packed, int64_t *used, void *scratch) {
    lb_weights_head head = {.method = p->activations == 1 ? LB_GEMV_U8 : LB_GEMV};
    const int64_t panels = lb_maddubs_w_panels(p->n), madd16 = madd16_cost(p, panels), maddubs_s8 = maddubs_s8_cost(p, panels);
    const int is_maddubs_s8 = p->activations == 2 && maddubs_s8 < madd16;
    if (p->rows < FEW_ROWS)
        used[0] = pack_gemv(p, w, packed);
    else if (p->k <= SHORT) {
        head.method = LB_PLAIN;
        used[0] = pack_plain(p, w, packed);
    } else if (p->activations == 1) {
        head.method = LB_MADDUBS_U8;
        used[0] = pack_nibbles(p, w, packed);
    } else if ((used[0] = pack_maddubs_w(p, w, packed, scratch, is_maddubs_s8 ? maddubs_s8 : madd16)) != 0)
        head.method = LB_MADDUBS_W;
    else if (is_maddubs_s8) {
        head.method = LB_MADDUBS_S8;
        used[0] = pack_maddubs_s8(p, w, packed);
    } else {
        head.method = LB_MADD16;
        used[0] = pack_madd16(p, w, packed);
    }
    memcpy(packed, &head, sizeof head);
    add_up(p, w, lb_weight_sums(packed));
}
