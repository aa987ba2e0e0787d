/* Sampling with a repetition penalty, temperature, top-k, top-p and min-p. */
#include "compute/model/infer_sample.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/random.h"

/* The random stream of sampling, which differs from other streams with the same seed. */
enum { STREAM = 0x73616d70 };

struct wf_sampling wf_sampling_defaults(void)
{
    return (struct wf_sampling){.temperature = 0.8, .top_k = 50, .top_p = 1, .seed = 42};
}

enum weft_status wf_sampling_check(const struct wf_sampling *how, struct weft_error *err)
{
    if (!(how->temperature >= 0 && how->temperature <= 1e6))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "temperature %g is out of range (expected 0 to 1000000)",
                         how->temperature);
    if (!(how->top_p > 0 && how->top_p <= 1))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "top-p %g is out of range (expected more than 0, at most 1)",
                         how->top_p);
    if (!(how->min_p >= 0 && how->min_p <= 1))
        return WEFT_FAIL(err, WEFT_USAGE, "min-p %g is out of range (expected 0 to 1)",
                         how->min_p);
    if (how->repetition_penalty != 0 &&
        !(how->repetition_penalty >= 0.001 && how->repetition_penalty <= 1000))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "repetition penalty %g is out of range (expected 0.001 to 1000)",
                         how->repetition_penalty);
    return WEFT_OK;
}

static bool ranks_above(struct wf_candidate a, struct wf_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/* Restores the heap order below `at`.  The most likely token is on top of the heap.  A heap
 * sorts only as many tokens as are needed. */
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
    heap[*n] = top; /* removed candidates are stored from the end backwards */
    return top;
}

static int32_t argmax(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* Returns the i-th removed candidate.  Candidates are removed in order of decreasing
 * probability. */
static struct wf_candidate removed(const struct wf_candidate *work, size_t n, size_t i)
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

/* Draws one of all tokens.  Probabilities are accumulated in the order of token numbers. */
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
        /* Rounding can leave u * total slightly above the sum. */
        last = w > 0 ? (int32_t)i : last;
        if (sum > u * total)
            break;
    }
    return last;
}

/* Removes the k most likely candidates from the heap, and those that are as likely as the last
 * of them.  Returns their number. */
static size_t pop_top(struct wf_candidate *work, size_t *heap_size, size_t k)
{
    size_t n = 0;
    float last = 0;
    while (*heap_size > 0 && (n < k || work[0].logit == last)) {
        last = pop(work, heap_size).logit;
        n++;
    }
    return n;
}

/* Draws one of the n_candidates most likely of n tokens. */
static int32_t draw_from(const struct wf_candidate *work, size_t n, size_t n_candidates,
                         float max, double temperature, double u)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < n_candidates; i++)
        total += weight(removed(work, n, i).logit, max, temperature);
    for (size_t i = 0; i < n_candidates; i++) {
        sum += weight(removed(work, n, i).logit, max, temperature);
        if (sum > u * total)
            return removed(work, n, i).token;
    }
    return removed(work, n, n_candidates - 1).token;
}

int32_t wf_sample(const float *logits, size_t n, const struct wf_sampling *how,
                  uint64_t position, struct wf_candidate *work)
{
    if (how->temperature == 0)
        return argmax(logits, n);
    double u = uniform(how->seed, position), total = 0, share = 0;
    size_t heap_size = n, k = how->top_k == 0 || how->top_k > n ? n : how->top_k, n_removed = 0;
    if (k == n && how->top_p >= 1 && how->min_p <= 0)
        return draw_from_all(logits, n, how, u);

    for (size_t i = 0; i < n; i++)
        work[i] = (struct wf_candidate){logits[i], (int32_t)i};
    for (size_t i = n / 2; i-- > 0;)
        sift(work, n, i);

    float max = work[0].logit;
    if (k == n) {
        for (size_t i = 0; i < n; i++)
            total += weight(logits[i], max, how->temperature);
    } else { /* top_p refers to the k tokens, so their sum comes first */
        k = n_removed = pop_top(work, &heap_size, k);
        for (size_t i = 0; i < k; i++)
            total += weight(removed(work, n, i).logit, max, how->temperature);
    }

    /* Keep the smallest number of tokens, at least one, whose total probability reaches top_p.
     * Of these, keep those whose probability reaches min_p times that of the first. */
    size_t n_candidates = 0;
    while (n_candidates < k && (n_candidates == 0 || share < how->top_p * total)) {
        if (n_candidates == n_removed) {
            pop(work, &heap_size);
            n_removed++;
        }
        double w = weight(removed(work, n, n_candidates).logit, max, how->temperature);
        if (w < how->min_p)
            break;
        share += w;
        n_candidates++;
    }
    return draw_from(work, n, n_candidates, max, how->temperature, u);
}

void wf_sample_penalize(float *logits, const int32_t *tokens, size_t n_tokens, double penalty,
                        unsigned char *seen)
{
    if (penalty == 0 || penalty == 1)
        return;
    for (size_t i = 0; i < n_tokens; i++) {
        float *logit = &logits[tokens[i]];
        if (!seen[tokens[i]])
            *logit = *logit < 0 ? *logit * (float)penalty : *logit / (float)penalty;
        seen[tokens[i]] = 1;
    }
    for (size_t i = 0; i < n_tokens; i++)
        seen[tokens[i]] = 0;
}
