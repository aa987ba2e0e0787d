/* Compares generation, one token at a time, with the memory bandwidth: each token reads all
 * weights once. */
#define _DEFAULT_SOURCE /* sysconf() names of the cache sizes */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pages.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/bench_priv.h"
#include "compute/kern/peak.h"
#include "compute/model/infer.h"

enum {
    PROMPT = 64,
    TOKENS = 8,           /* tokens between two measurements of the memory bandwidth */
    MIN_CACHE = 32 << 20, /* cache size assumed if the machine reports less or nothing */
    CACHES = 8,           /* size of the memory that is read, in multiples of the cache size */
};

struct generate_bench {
    const struct wf_bench_params *s;
    struct weft_model model;
    struct wf_pool *pool; /* owned */
    float *memory;        /* owned: (n_memory) */
    size_t n_memory;
    float *logits; /* owned: (vocab) */
};

static size_t cache_bytes(void)
{
    long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
    size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return size > MIN_CACHE ? (size_t)size : MIN_CACHE;
}

static double maximum(double a, double b)
{
    return a > b ? a : b;
}

static double per_second(size_t n, int64_t since)
{
    int64_t took = wf_clock_ns() - since;
    return (double)n / ((double)(took > 0 ? took : 1) * 1e-9);
}

static enum weft_status feed(const struct generate_bench *b, struct wf_infer *m, size_t n,
                             double *rate, struct weft_error *err)
{
    int64_t begin = wf_clock_ns();
    for (size_t i = 0; i < n; i++) {
        int32_t token = (int32_t)wf_random_below(7, 1, wf_infer_position(m), b->model.vocab);
        WEFT_TRY(wf_infer_feed(m, &token, 1, b->logits, err));
    }
    *rate = per_second(n, begin);
    return WEFT_OK;
}

/* Alternates generating tokens and reading memory, so that both are measured under the same
 * load.  Reports the best result of each. */
static enum weft_status rounds(const struct generate_bench *b, struct wf_infer *m,
                               struct wf_bench_generate_type *f, struct weft_error *err)
{
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        double rate;
        wf_infer_rewind(m, PROMPT);
        f->read_bytes_s =
            maximum(f->read_bytes_s, wf_read_bandwidth(b->pool, b->memory, b->n_memory));
        WEFT_TRY(feed(b, m, TOKENS, &rate, err));
        f->tok_s = maximum(f->tok_s, rate);
    }
    f->token_bytes = wf_infer_token_bytes(m);
    f->share = (double)f->token_bytes * f->tok_s / f->read_bytes_s;
    f->reached = f->share >= wf_bench_targets.min_memory_share;
    return WEFT_OK;
}

static enum weft_status measure(const struct generate_bench *b, enum wf_dtype type,
                                struct wf_bench_generate_type *f, struct weft_error *err)
{
    struct wf_infer_spec spec = {b->model, PROMPT + TOKENS, type, b->pool};
    struct wf_infer *m = NULL;
    int32_t prompt[PROMPT];
    *f = (struct wf_bench_generate_type){.type = type};
    WEFT_TRY(wf_infer_new(&spec, &m, err));
    enum weft_status st = wf_infer_init_weights(m, 42, err);
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = (int32_t)wf_random_below(7, 0, (uint64_t)i, b->model.vocab);

    /* The first pass touches the pages.  Only the result of the second pass is kept. */
    for (int again = 0; st == WEFT_OK && again < 2; again++) {
        wf_infer_rewind(m, 0);
        int64_t begin = wf_clock_ns();
        st = wf_infer_feed(m, prompt, PROMPT, b->logits, err);
        f->prompt_tok_s = per_second(PROMPT, begin);
    }
    if (st == WEFT_OK)
        st = rounds(b, m, f, err);
    wf_infer_free(m);
    return st;
}

static enum weft_status run(struct generate_bench *b, struct wf_bench_generate *out,
                            struct weft_error *err)
{
    size_t bytes;
    WEFT_TRY(weft_model_find(b->s->spec, &b->model, err));
    if (b->model.ctx < PROMPT + TOKENS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: the context is too short (%u tokens; at least %d needed)",
                         b->s->spec, b->model.ctx, PROMPT + TOKENS);
    WEFT_TRY(wf_pool_new(b->s->threads, &b->pool, err));

    /* Reads enough memory to exceed the caches, at most 2 GiB. */
    if (!wf_size_mul(cache_bytes(), CACHES, &bytes) || bytes > (size_t)2 << 30)
        bytes = (size_t)2 << 30;
    b->n_memory = bytes / sizeof *b->memory;
    b->memory = wf_pages_alloc(bytes);
    b->logits = malloc(b->model.vocab * sizeof *b->logits);
    if (b->memory == NULL || b->logits == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu bytes to be read", bytes);
    memset(b->memory, 0, bytes);

    struct wf_bench_generate result = {.threads = wf_pool_threads(b->pool), .prompt = PROMPT};
    WEFT_TRY(measure(b, WF_DTYPE_F32, &result.types[0], err));
    WEFT_TRY(measure(b, WF_DTYPE_BF16, &result.types[1], err));
    *out = result;
    return WEFT_OK;
}

enum weft_status wf_bench_generate(const struct wf_bench_params *p,
                                   struct wf_bench_generate *out, struct weft_error *err)
{
    struct generate_bench b = {.s = p};
    enum weft_status st = run(&b, out, err);
    wf_pool_free(b.pool);
    free(b.memory);
    free(b.logits);
    return st;
}
