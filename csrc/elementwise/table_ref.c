#include "lb.h"

lb_table_s8_fn lb_table_s8__ref;

void lb_table_s8__ref(const lb_table_s8_params *p, const int8_t *x, const int8_t *table, int8_t *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = table[x[i] + 128];
}

lb_table_s8_s16_fn lb_table_s8_s16__ref;

void lb_table_s8_s16__ref(const lb_table_s8_s16_params *p, const int8_t *x, const int16_t *table, int16_t *out, int32_t begin,
                          int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = table[x[i] + 128];
}

lb_table_s8_f32_fn lb_table_s8_f32__ref;

void lb_table_s8_f32__ref(const lb_table_s8_f32_params *p, const int8_t *x, const lb_f32 *table, lb_f32 *out, int32_t begin, int32_t end) {
    (void)p;
    for (int32_t i = begin; i < end; i++)
        out[i] = table[x[i] + 128];
}

lb_table_s16_fn lb_table_s16__ref;

void lb_table_s16__ref(const lb_table_s16_params *p, const int16_t *x, const void *table, void *out, int32_t begin, int32_t end) {
    if (p->out_bytes == 1)
        for (int32_t i = begin; i < end; i++)
            ((int8_t *)out)[i] = ((const int8_t *)table)[x[i] + 32768];
    else
        for (int32_t i = begin; i < end; i++)
            ((int16_t *)out)[i] = ((const int16_t *)table)[x[i] + 32768];
}

lb_channel_table_fn lb_channel_table__ref;

void lb_channel_table__ref(const lb_channel_table_params *p, const uint8_t *x, const void *table, void *out, int32_t begin, int32_t end) {
    int32_t i = begin;
    while (i < end) {
        const int32_t plane = i / p->inner, channel = plane % p->channels;
        const int32_t left = p->inner - (i - plane * p->inner), stop = left < end - i ? i + left : end;
        if (p->out_bytes == 1)
            for (const int8_t *t = (const int8_t *)table + 256 * channel; i < stop; i++)
                ((int8_t *)out)[i] = t[x[i]];
        else if (p->out_bytes == 2)
            for (const int16_t *t = (const int16_t *)table + 256 * channel; i < stop; i++)
                ((int16_t *)out)[i] = t[x[i]];
        else
            for (const lb_f32 *t = (const lb_f32 *)table + 256 * channel; i < stop; i++)
                ((lb_f32 *)out)[i] = t[x[i]];
    }
}
