#include "compute/model/infer_sample.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/random.h"

/* Keeps these random numbers apart from those that the same seed gives elsewhere. */
enum { STREAM = 0x73616d70 };

enum weft_status wf_sampling_check(const struct wf_sampling *how, struct weft_error *err)
{
    if (!(how->temperature >= 0 && how->temperature <= 1e6))
        return WEFT_FAIL(err, WEFT_USAGE, "a temperature of %g: give 0 to 1000000",
                         how->temperature);
    if (!(how->top_p > 0 && how->top_p <= 1))
        return WEFT_FAIL(err, WEFT_USAGE, "a top-p of %g: give more than 0, up to 1",
                         how->top_p);
    return WEFT_OK;
}

static bool ranks_above(struct wf_candidate a, struct wf_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/* A heap with the max likely token on top: only as many are put in order as are looked at. */
static void sift(struct wf_candidate *heap, size_t n, size_t at)
{
    struct wf_candidate moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ranks_above(heap[child + 1], heap[child]))
            child++;
        if (!ranks_above(heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static struct wf_candidate pop(struct wf_candidate *heap, size_t *n)
{
    struct wf_candidate top = heap[0];
    heap[0] = heap[--*n];
    sift(heap, *n, 0);
    heap[*n] = top; /* taken ones gather at the end: the first of them is the last element */
    return top;
}

static int32_t argmax(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* The i-th of those that were taken, the max likely first. */
static struct wf_candidate taken(const struct wf_candidate *work, size_t n, size_t i)
{
    return work[n - 1 - i];
}

static double weight(float logit, float max, double temperature)
{
    return exp(((double)logit - max) / temperature);
}

static double uniform(uint64_t seed, uint64_t position)
{
    return (double)(wf_random_u64(seed, STREAM, position) >> 11) * 0x1p-53;
}

/* Among all tokens, in the order of their numbers. */
static int32_t draw_from_all(const float *logits, size_t n, const struct wf_sampling *how,
                             double u)
{
    float max = logits[argmax(logits, n)];
    double total = 0, sum = 0;
    int32_t last = 0;
    for (size_t i = 0; i < n; i++)
        total += weight(logits[i], max, how->temperature);
    for (size_t i = 0; i < n; i++) {
        double w = weight(logits[i], max, how->temperature);
        sum += w;
        last = w > 0 ? (int32_t)i : last; /* rounding can leave u * total just above the sum */
        if (sum > u * total)
            break;
    }
    return last;
}

int32_t wf_sample(const float *logits, size_t n, const struct wf_sampling *how,
                  uint64_t position, struct wf_candidate *work)
{
    if (how->temperature == 0)
        return argmax(logits, n);
    double u = uniform(how->seed, position), total = 0, share = 0, sum = 0;
    size_t heap_size = n, k = how->top_k == 0 || how->top_k > n ? n : how->top_k, n_taken = 0;
    if (k == n && how->top_p >= 1)
        return draw_from_all(logits, n, how, u);
    for (size_t i = 0; i < n; i++)
        work[i] = (struct wf_candidate){logits[i], (int32_t)i};
    for (size_t i = n / 2; i-- > 0;)
        sift(work, n, i);
    float max = work[0].logit;
    if (k == n)
        for (size_t i = 0; i < n; i++)
            total += weight(logits[i], max, how->temperature);
    else /* their share is of the k, which must be known first */
        for (n_taken = 0; n_taken < k; n_taken++)
            total += weight(pop(work, &heap_size).logit, max, how->temperature);
    /* The fewest that have the share: at least one. */
    size_t n_kept = 0;
    while (n_kept < k && (n_kept == 0 || share < how->top_p * total)) {
        if (n_kept == n_taken) {
            pop(work, &heap_size);
            n_taken++;
        }
        share += weight(taken(work, n, n_kept++).logit, max, how->temperature);
    }
    for (size_t i = 0; i < n_kept; i++) {
        sum += weight(taken(work, n, i).logit, max, how->temperature);
        if (sum > u * share)
            return taken(work, n, i).token;
    }
    return taken(work, n, n_kept - 1).token;
}
