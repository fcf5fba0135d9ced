#include "lb.h"
#include "attention/cache_place.h"
#include "base/exp.h"
#include "base/half.h"

#define LB_INFINITY lb_f32_of_bits(0x7f800000u)

lb_cache_store_f16_fn lb_cache_store_f16__ref;

void lb_cache_store_f16__ref(const lb_cache_store_f16_params *p, const float *x, const int32_t *positions, const int32_t *sequences,
                             const int32_t *table, uint16_t *cache, int32_t begin, int32_t end) {
    for (int32_t row = begin; row < end; row++) {
        uint16_t *to = lb_cache_page_of_row(p, table, sequences[row], positions[row], cache);
        const int32_t at = positions[row] % LB_PAGE;
        const float *from = x + (ptrdiff_t)row * p->heads * p->depth;
        for (int32_t h = 0; to && h < p->heads; h++, from += p->depth, to += p->depth * LB_PAGE) {
            for (int32_t d = 0; d < p->depth; d++)
                to[p->keys ? d * LB_PAGE + at : at * p->depth + d] = lb_f16_of_f32(from[d]);
        }
    }
}

lb_cache_attention_f16_fn lb_cache_attention_f16__ref;

/* One query of a head; `e` has room for every position. */
static void attend(const lb_cache_attention_f16_params *p, const float *q, const uint16_t *k, const uint16_t *v, const int32_t *own,
                   int32_t position, int32_t head, float *e, float *out) {
    const int32_t all = p->slots * LB_PAGE, last = !own ? -1 : position < all ? position : all - 1;
    const int32_t first = p->window > 0 && position >= p->window ? position - p->window + 1 : 0;
    const ptrdiff_t step = (ptrdiff_t)p->depth * LB_PAGE;
    float most = -LB_INFINITY, lane[16] = {0};
    for (int32_t t = first; t <= last; t++) {
        const int32_t page = lb_cache_page(own, p->slots, p->pages, t);
        float s = -LB_INFINITY;
        if (page >= 0) {
            const uint16_t *key = k + ((ptrdiff_t)page * p->kv_heads + head) * step + t % LB_PAGE;
            s = 0.0f;
            for (int32_t d = 0; d < p->depth; d++)
                s = s + q[d] * lb_f32_of_f16(key[(ptrdiff_t)d * LB_PAGE]);
            s = s * p->scale;
            if (p->softcap > 0.0f)
                s = p->softcap * lb_tanh(s / p->softcap);
            s = s == s ? s : -LB_INFINITY;
        }
        e[t] = s;
        most = s > most ? s : most;
    }
    for (int32_t d = 0; d < p->depth; d++)
        out[d] = 0.0f;
    if (!(most > -LB_INFINITY))
        return;
    for (int32_t t = first; t <= last; t++) {
        e[t] = lb_exp(e[t] - most);
        lane[t % 16] = lane[t % 16] + e[t];
    }
    for (int32_t width = 8; width; width /= 2)
        for (int32_t j = 0; j < width; j++)
            lane[j] = lane[j] + lane[j + width];
    for (int32_t t = first; t <= last; t++) {
        const int32_t page = lb_cache_page(own, p->slots, p->pages, t);
        if (page < 0)
            continue;
        const uint16_t *value = v + ((ptrdiff_t)page * p->kv_heads + head) * step + (ptrdiff_t)(t % LB_PAGE) * p->depth;
        for (int32_t d = 0; d < p->depth; d++)
            out[d] = out[d] + e[t] * lb_f32_of_f16(value[d]);
    }
    for (int32_t d = 0; d < p->depth; d++)
        out[d] = out[d] / lane[0];
}

void lb_cache_attention_f16__ref(const lb_cache_attention_f16_params *p, const float *q, const uint16_t *k, const uint16_t *v,
                                 const int32_t *positions, const int32_t *sequences, const int32_t *table, float *out, void *scratch,
                                 int32_t begin, int32_t end) {
    const int32_t blocks = (p->rows + p->block - 1) / p->block, group = p->heads / p->kv_heads;
    for (int32_t item = begin; item < end; item++) {
        const int32_t head = item / blocks, top = item % blocks * p->block, bottom = top + p->block < p->rows ? top + p->block : p->rows;
        for (int32_t row = top; row < bottom; row++)
            for (int32_t h = head * group; h < (head + 1) * group; h++) {
                const ptrdiff_t at = ((ptrdiff_t)row * p->heads + h) * p->depth;
                const int32_t *own = lb_cache_pages(table, p->sequences, p->slots, sequences[row]);
                attend(p, q + at, k, v, own, positions[row], head, scratch, out + at);
            }
    }
}
