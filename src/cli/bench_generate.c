/* Tokens one at a time, against what memory allows: the weights read once for each. */
#define _DEFAULT_SOURCE /* sysconf's sizes of caches */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/pages.h"
#include "base/random.h"
#include "base/size.h"
#include "cli/bench.h"
#include "compute/kern/decode.h"
#include "compute/kern/isa.h"
#include "compute/model/infer.h"

enum {
    PROMPT = 64,
    TOKENS = 8,             /* between two measurements of memory */
    LEAST_CACHE = 32 << 20, /* where the machine does not say */
    CACHES = 8,             /* so much more than the cache is read */
};

static const double bar = 0.6;

struct bench {
    const struct wf_bench_compute *s;
    struct weft_model model;
    struct wf_pool *pool; /* owned, as is all below */
    float *memory;
    size_t n_memory;
    float *logits;
};

struct figures {
    enum wf_dtype type;
    size_t bytes; /* of weights for a token */
    double prompt_rate, rate, read, share;
};

static size_t cache_bytes(void)
{
    long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
    size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return size > LEAST_CACHE ? (size_t)size : LEAST_CACHE;
}

static double more(double a, double b)
{
    return a > b ? a : b;
}

static double per_second(size_t n, int64_t since)
{
    int64_t took = wf_clock_ns() - since;
    return (double)n / ((double)(took > 0 ? took : 1) * 1e-9);
}

static enum weft_status feed(const struct bench *b, struct wf_infer *m, size_t n, double *rate,
                             struct weft_error *err)
{
    int64_t begin = wf_clock_ns();
    for (size_t i = 0; i < n; i++) {
        int32_t token = (int32_t)wf_random_below(7, 1, wf_infer_position(m), b->model.vocab);
        WEFT_TRY(wf_infer_feed(m, &token, 1, b->logits, err));
    }
    *rate = per_second(n, begin);
    return WEFT_OK;
}

/* Tokens and memory in turn, so that both see the same machine.  The best of each counts: whatever
 * else runs only ever slows it down. */
static enum weft_status rounds(const struct bench *b, struct wf_infer *m, struct figures *f,
                               struct weft_error *err)
{
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        double rate;
        wf_infer_rewind(m, PROMPT);
        f->read = more(f->read, wf_read_bandwidth(b->pool, b->memory, b->n_memory));
        WEFT_TRY(feed(b, m, TOKENS, &rate, err));
        f->rate = more(f->rate, rate);
    }
    f->bytes = wf_infer_token_bytes(m);
    f->share = (double)f->bytes * f->rate / f->read;
    return WEFT_OK;
}

static enum weft_status measure(const struct bench *b, enum wf_dtype type, struct figures *f,
                                struct weft_error *err)
{
    struct wf_infer_spec spec = {b->model, PROMPT + TOKENS, type, b->pool};
    struct wf_infer *m = NULL;
    int32_t prompt[PROMPT];
    *f = (struct figures){.type = type};
    WEFT_TRY(wf_infer_new(&spec, &m, err));
    enum weft_status st = wf_infer_init_weights(m, 42, err);
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = (int32_t)wf_random_below(7, 0, (uint64_t)i, b->model.vocab);
    /* The first time pages are touched for the first time. */
    for (int again = 0; st == WEFT_OK && again < 2; again++) {
        wf_infer_rewind(m, 0);
        int64_t begin = wf_clock_ns();
        st = wf_infer_feed(m, prompt, PROMPT, b->logits, err);
        f->prompt_rate = per_second(PROMPT, begin);
    }
    if (st == WEFT_OK)
        st = rounds(b, m, f, err);
    wf_infer_free(m);
    return st;
}

static void print_figures(const struct figures *f)
{
    printf("%-5s %7.1f tokens/s (prompt %.0f/s), %.0f MB a token, memory %.1f GB/s, share "
           "%.1f%% %s (bar %.0f%%)\n",
           wf_dtype_name(f->type), f->rate, f->prompt_rate, (double)f->bytes / 1e6,
           f->read / 1e9, 100 * f->share, f->share >= bar ? "ok" : "under", 100 * bar);
}

static void put_figures(struct wf_json *j, const struct figures *f)
{
    wf_json_begin(j, wf_dtype_name(f->type), '{');
    wf_json_number(j, "tok_s", f->rate);
    wf_json_number(j, "prompt_tok_s", f->prompt_rate);
    wf_json_uint(j, "token_bytes", f->bytes);
    wf_json_number(j, "read_bytes_s", f->read);
    wf_json_number(j, "share", f->share);
    wf_json_end(j, '}');
}

static void print(const struct bench *b, const struct figures *f, size_t n)
{
    struct wf_json j = {.out = stdout};
    if (!b->s->json) {
        printf("%s, after a prompt of %d, %u thread%s, %s, best of %u\n", b->s->spec, PROMPT,
               wf_pool_threads(b->pool), wf_pool_threads(b->pool) == 1 ? "" : "s",
               wf_isa_name(wf_isa()), b->s->repeat);
        for (size_t i = 0; i < n; i++)
            print_figures(&f[i]);
        return;
    }
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", b->s->spec);
    wf_json_uint(&j, "prompt", PROMPT);
    wf_json_uint(&j, "threads", wf_pool_threads(b->pool));
    wf_json_string(&j, "instructions", wf_isa_name(wf_isa()));
    wf_json_number(&j, "bar", bar);
    for (size_t i = 0; i < n; i++)
        put_figures(&j, &f[i]);
    wf_json_end(&j, '}');
    putchar('\n');
}

static enum weft_status run(struct bench *b, struct weft_error *err)
{
    struct figures figures[2];
    size_t bytes;
    WEFT_TRY(weft_model_find(b->s->spec, &b->model, err));
    if (b->model.ctx < PROMPT + TOKENS)
        return WEFT_FAIL(err, WEFT_USAGE, "%s takes %u tokens: %d are needed", b->s->spec,
                         b->model.ctx, PROMPT + TOKENS);
    WEFT_TRY(wf_pool_new(b->s->threads, &b->pool, err));
    if (!wf_size_mul(cache_bytes(), CACHES, &bytes) || bytes > (size_t)2 << 30)
        bytes = (size_t)2 << 30;
    b->n_memory = bytes / sizeof *b->memory;
    b->memory = wf_pages_alloc(bytes);
    b->logits = malloc(b->model.vocab * sizeof *b->logits);
    if (b->memory == NULL || b->logits == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to read (%zu bytes)", bytes);
    memset(b->memory, 0, bytes);
    WEFT_TRY(measure(b, WF_DTYPE_F32, &figures[0], err));
    WEFT_TRY(measure(b, WF_DTYPE_BF16, &figures[1], err));
    print(b, figures, WEFT_LEN(figures));
    return WEFT_OK;
}

enum weft_status wf_bench_generate(const struct wf_bench_compute *s, struct weft_error *err)
{
    struct bench b = {.s = s};
    enum weft_status st = run(&b, err);
    wf_pool_free(b.pool);
    free(b.memory);
    free(b.logits);
    return st;
}
