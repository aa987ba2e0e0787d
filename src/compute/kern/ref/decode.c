/* Reference versions of the kernels of decode.h, in double. */
#include "compute/kern/decode.h"

#include <math.h>

#include "compute/kern/ref/ops_priv.h"

void wf_gemv_ref(const struct wf_gemv *g, size_t row0, size_t row1)
{
    for (size_t t = 0; t < g->n; t++)
        for (size_t r = row0; r < row1; r++) {
            double sum = g->bias != NULL ? g->bias[r] : 0;
            if (g->add != NULL)
                sum += g->add[t * g->y_ld + r];
            for (size_t c = 0; c < g->k; c++)
                sum += wf_ref_get(g->w, r, c) * g->x[t * g->x_ld + c];
            g->y[t * g->y_ld + r] = (float)sum;
        }
}

static double score(const struct wf_attend *a, size_t i)
{
    double sum = 0;
    for (size_t c = 0; c < a->head; c++)
        sum += (double)a->q[c] * a->k[i * a->head + c];
    return sum * a->scale;
}

void wf_attend_ref(const struct wf_attend *a)
{
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < a->n; i++)
        max = fmax(max, score(a, i));
    for (size_t i = 0; i < a->n; i++)
        sum += exp(score(a, i) - max);
    for (size_t c = 0; c < a->head; c++) {
        double out = 0;
        for (size_t i = 0; i < a->n; i++)
            out += exp(score(a, i) - max) / sum * a->v[i * a->head + c];
        a->out[c] = (float)out;
    }
}
