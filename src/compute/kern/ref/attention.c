/* Reference attention: one query at a time, in double. */
#include "compute/kern/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/kern/ref/ops_priv.h"

static double dot(struct wf_mat x, size_t x_row, size_t x_col, struct wf_mat y, size_t y_row,
                  size_t y_col, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += wf_ref_get(x, x_row, x_col + i) * wf_ref_get(y, y_row, y_col + i);
    return sum;
}

/* A query head of one sequence: the first row of the sequence, the first column of the head's
 * queries, and the first column of its keys. */
struct position {
    size_t row, col, kv_col;
};

static struct position position_of(const struct wf_attention *a, size_t sequence, size_t h)
{
    size_t group = a->heads / a->kv_heads;
    return (struct position){sequence * a->seq, h * a->head, h / group * a->head};
}

static double score(const struct wf_attention *a, struct position at, size_t query, size_t key)
{
    double s = dot(a->q, at.row + query, at.col, a->k, at.row + key, at.kv_col, a->head);
    return s / sqrt((double)a->head);
}

/* Returns the logarithm of the sum of exponentials of a query's scores. */
static double log_sum(const struct wf_attention *a, struct position at, size_t query)
{
    double max = -INFINITY, sum = 0;
    for (size_t key = 0; key <= query; key++)
        max = fmax(max, score(a, at, query, key));
    for (size_t key = 0; key <= query; key++)
        sum += exp(score(a, at, query, key) - max);
    return max + log(sum);
}

/* Returns zeroed rows of `head` doubles for sums.  Returns NULL if memory runs out.  The caller
 * then writes no results, so that the test fails. */
static double *sums_new(const struct wf_attention *a, size_t rows)
{
    return calloc(rows * a->head, sizeof(double));
}

static void add(double *sums, double factor, struct wf_mat m, size_t row, size_t col, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += factor * wf_ref_get(m, row, col + i);
}

static void write_rows(struct wf_mat m, size_t row, size_t col, const double *sums, size_t rows,
                       size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            wf_ref_put(m, row + r, col + i, sums[r * n + i]);
}

static void forward_head(const struct wf_attention *a, size_t sequence, size_t h, double *out)
{
    struct position at = position_of(a, sequence, h);
    for (size_t query = 0; query < a->seq; query++) {
        double lse = log_sum(a, at, query);
        memset(out, 0, a->head * sizeof *out);
        for (size_t key = 0; key <= query; key++)
            add(out, exp(score(a, at, query, key) - lse), a->v, at.row + key, at.kv_col,
                a->head);
        write_rows(a->out, at.row + query, at.col, out, 1, a->head);
        a->lse[(sequence * a->heads + h) * a->seq + query] = (float)lse;
    }
}

void wf_attention_forward_ref(const struct wf_attention *a)
{
    double *out = sums_new(a, 1);
    for (size_t i = 0; out != NULL && i < a->batch * a->heads; i++)
        forward_head(a, i / a->heads, i % a->heads, out);
    free(out);
}

/* Adds the contribution of one query head to dk and dv, and writes dq of that head. */
static void backward_head(const struct wf_attention *a, size_t sequence, size_t h, double *dq,
                          double *dk, double *dv)
{
    struct position at = position_of(a, sequence, h);
    size_t n = a->head;
    for (size_t query = 0; query < a->seq; query++) {
        size_t row = at.row + query;
        double lse = log_sum(a, at, query);
        double mean = dot(a->dout, row, at.col, a->out, row, at.col, n);
        memset(dq, 0, n * sizeof *dq);
        for (size_t key = 0; key <= query; key++) {
            double p = exp(score(a, at, query, key) - lse);
            double dp = dot(a->dout, row, at.col, a->v, at.row + key, at.kv_col, n);
            double ds = p * (dp - mean) / sqrt((double)n);
            add(dv + key * n, p, a->dout, row, at.col, n);
            add(dk + key * n, ds, a->q, row, at.col, n);
            add(dq, ds, a->k, at.row + key, at.kv_col, n);
        }
        write_rows(a->dq, row, at.col, dq, 1, n);
    }
}

void wf_attention_backward_ref(const struct wf_attention *a)
{
    size_t group = a->heads / a->kv_heads;
    for (size_t i = 0; i < a->batch * a->kv_heads; i++) {
        size_t sequence = i / a->kv_heads, g = i % a->kv_heads;
        double *dk = sums_new(a, a->seq), *dv = sums_new(a, a->seq), *dq = sums_new(a, 1);
        for (size_t h = g * group; dq && dk && dv && h < (g + 1) * group; h++)
            backward_head(a, sequence, h, dq, dk, dv);
        if (dq && dk && dv) {
            write_rows(a->dk, sequence * a->seq, g * a->head, dk, a->seq, a->head);
            write_rows(a->dv, sequence * a->seq, g * a->head, dv, a->seq, a->head);
        }
        free(dq);
        free(dk);
        free(dv);
    }
}
