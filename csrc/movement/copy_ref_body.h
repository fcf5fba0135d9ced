/* A copy between two strided boxes, written once for every width: the file that includes this one defines ELEMENT, PARAMS and KERNEL. */
#include <stddef.h>
#include <string.h>

void KERNEL(const PARAMS *p, const ELEMENT *x, ELEMENT *out, int32_t begin, int32_t end) {
    const int32_t *n = p->shape, *s = p->x_stride, *t = p->out_stride, count = n[5]; /* the last axis: not read again after a store */
    const ptrdiff_t x_step = s[5], out_step = t[5];
    for (int32_t a = begin; a < end; a++)
        for (int32_t b = 0; b < n[1]; b++)
            for (int32_t c = 0; c < n[2]; c++)
                for (int32_t d = 0; d < n[3]; d++)
                    for (int32_t e = 0; e < n[4]; e++) {
                        const ptrdiff_t from = (ptrdiff_t)a * s[0] + (ptrdiff_t)b * s[1] + (ptrdiff_t)c * s[2] + (ptrdiff_t)d * s[3];
                        const ptrdiff_t to = (ptrdiff_t)a * t[0] + (ptrdiff_t)b * t[1] + (ptrdiff_t)c * t[2] + (ptrdiff_t)d * t[3];
                        const ELEMENT *in = x + p->x_offset + from + (ptrdiff_t)e * s[4];
                        ELEMENT *copy = out + p->out_offset + to + (ptrdiff_t)e * t[4];
                        if (x_step == 1 && out_step == 1)
                            memcpy(copy, in, sizeof *in * (size_t)count);
                        else
                            for (ptrdiff_t i = 0; i < count; i++)
                                copy[i * out_step] = in[i * x_step];
                    }
}

#undef ELEMENT
#undef PARAMS
#undef KERNEL
