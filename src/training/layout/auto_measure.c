/* Measures the passes on this machine: all ranks that share the machine run one layer, an
 * embedding and a head a few times, at the same time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/random.h"
#include "compute/kern/ops.h"
#include "compute/model/stage.h"
#include "compute/optim/stage_optim.h"
#include "training/data/batch.h"
#include "training/layout/auto.h"

enum {
    /* maximum tokens of the measured micro; more tokens do not reduce the time per token */
    MAX_TOKENS = 512,
    MIN_TOKENS = 32, /* the number of tokens is a multiple of MIN_TOKENS */
    MIN_VOCAB = 1024,
    REPEATS = 5,
    SUM_TILE = 1 << 16,
    N_SUM_TILES = 32,
    PINGS = 25,
};

/* LAYER_FLOPS: operations of one pass over a layer.  ITEM_NS: nanoseconds for all passes over
 * an item. */
#define LAYER_FLOPS 4e9
#define ITEM_NS 150000000

/* -- the small model ----------------------------------------------------------------------- */

static uint32_t clamp(double x, uint32_t min, uint32_t max)
{
    if (!(x > min))
        return min < max ? min : max;
    return x < max ? (uint32_t)x : max;
}

static double ratio(double truth, double probe)
{
    return probe > 0 ? truth / probe : 1;
}

static struct weft_item scale_of(const struct weft_item *truth, const struct weft_item *probe)
{
    return (struct weft_item){.f = ratio(truth->f, probe->f),
                              .i = ratio(truth->i, probe->i),
                              .w = ratio(truth->w, probe->w)};
}

/* Computes the factors that scale times of the probe to the model, which may have a larger
 * vocabulary and longer sequences.  Times are assumed to be proportional to operations. */
static enum weft_status fill_scales(struct wf_auto_probe *p, const struct weft_items *truth,
                                    struct weft_error *err)
{
    struct weft_items probe = {0};
    WEFT_TRY(weft_items_init_model(&probe, &p->model, p->rows, p->seq, err));
    const size_t of[] = {0, 1, truth->n - 1};
    for (size_t k = 0; k < 3; k++) {
        p->scale[k] = scale_of(&truth->at[of[k]], &probe.at[k]);
        p->bytes += probe.at[k].state_bytes + probe.at[k].act_bytes;
    }
    weft_items_release(&probe);
    return WEFT_OK;
}

enum weft_status wf_auto_probe_init(struct wf_auto_probe *p, const struct wf_train_settings *s,
                                    const struct weft_model *model, struct weft_error *err)
{
    struct weft_items truth = {0};
    uint32_t seq = s->data.seq != 0 ? s->data.seq : model->ctx;
    struct wf_range first = wf_micro_range(s->data.batch, s->parallel.micros, 0);
    size_t rows = first.end - first.begin;
    WEFT_TRY(weft_items_init_model(&truth, model, (uint32_t)rows, seq, err));

    const struct weft_item *layer = &truth.at[1];
    double token = layer->f / ((double)rows * seq);
    uint32_t tokens = clamp(LAYER_FLOPS / token, MIN_TOKENS, MAX_TOKENS);
    tokens -= tokens % MIN_TOKENS;

    *p = (struct wf_auto_probe){
        .model = *model,
        .seq = seq < tokens ? seq : tokens,
        .precision = s->train.precision == WF_PRECISION_BF16 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .fast_sums = s->train.reduction == WF_REDUCTION_FAST,
    };

    p->rows = clamp((double)tokens / p->seq, 1, (uint32_t)rows);
    p->model.layers = 1;
    /* With block attention residuals, the stage would need blocks of other stages.  Their cost
     * is small, so the probe has none. */
    p->model.residual_block_layers = 0;
    p->model.vocab = clamp(token / (2.0 * model->dim), MIN_VOCAB, model->vocab);

    enum weft_status st = fill_scales(p, &truth, err);
    weft_items_release(&truth);
    return st;
}

/* -- passes -------------------------------------------------------------------------------- */

/* A stage with one item, and the buffers for its calls. */
struct layout_bench {
    struct wf_tstage *t; /* owned; the buffers are owned as well */
    struct weft_stage stage;
    int32_t *tokens;
    float *in, *out, *dout, *din;
    struct weft_stage_call call;
    double loss;
};

static void release_bench(struct layout_bench *b)
{
    wf_tstage_free(b->t);
    free(b->tokens);
    free(b->in);
    free(b->out);
    free(b->dout);
    free(b->din);
}

static void fill(float *at, size_t n, float size, uint64_t what)
{
    for (size_t i = 0; i < n; i++)
        at[i] = size * ((float)wf_random_below(3, what, i, 2001) / 1000.0F - 1.0F);
}

static enum weft_status make_bench(struct layout_bench *b, const struct wf_auto_probe *p,
                                   uint32_t item, struct wf_pool *pool, struct weft_error *err)
{
    const struct wf_tstage_spec spec = {.model = p->model,
                                        .item0 = item,
                                        .item1 = item + 1,
                                        .seq = p->seq,
                                        .row_counts = {p->rows},
                                        .n_row_counts = 1,
                                        .slots = 1,
                                        .split_slots = 1,
                                        .precision = p->precision,
                                        .fast_sums = p->fast_sums,
                                        .pool = pool};
    size_t tokens = (size_t)p->rows * p->seq, n = tokens * p->model.dim;
    bool first = item == 0, last = item == 2;
    WEFT_TRY(wf_tstage_new(&spec, &b->t, err));

    b->tokens = calloc(tokens, sizeof *b->tokens);
    b->in = calloc(n, sizeof(float));
    b->out = calloc(n, sizeof(float));
    b->dout = calloc(n, sizeof(float));
    b->din = calloc(n, sizeof(float));
    if (b->tokens == NULL || b->in == NULL || b->out == NULL || b->dout == NULL ||
        b->din == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to measure %zu tokens", tokens);

    for (size_t i = 0; i < tokens; i++)
        b->tokens[i] = (int32_t)wf_random_below(3, 0, i, p->model.vocab);
    fill(b->in, n, 1, 1);
    fill(b->dout, n, 1e-3F, 2);
    wf_tstage_init_weights(b->t, 1);
    wf_tstage_pack(b->t);
    wf_tstage_begin_step(b->t);

    b->stage = wf_tstage_stage(b->t);
    b->call = (struct weft_stage_call){.rows = p->rows,
                                       .in = first ? (void *)b->tokens : b->in,
                                       .out = last ? NULL : b->out,
                                       .dout = last ? NULL : b->dout,
                                       .din = first ? NULL : b->din,
                                       .targets = last ? b->tokens : NULL,
                                       .scale = 1.0F / (float)tokens,
                                       .loss = last ? &b->loss : NULL,
                                       .train = true};
    return WEFT_OK;
}

/* Returns the seconds since *from and sets *from to the current time. */
static double lap(int64_t *from)
{
    int64_t now = wf_clock_ns();
    double seconds = (double)(now - *from) * 1e-9;
    *from = now;
    return seconds;
}

/* Measures a forward pass, a whole backward pass, and a backward pass in two parts. */
static enum weft_status run_passes(struct layout_bench *b, struct wf_auto_times *out,
                                   struct weft_error *err)
{
    const struct weft_stage_ops *ops = b->stage.ops;
    int64_t at = wf_clock_ns();
    WEFT_TRY(ops->forward(b->stage.self, &b->call, err));
    out->f = lap(&at);
    WEFT_TRY(weft_stage_backward(&b->stage, &b->call, err));
    out->b = lap(&at);
    WEFT_TRY(ops->forward(b->stage.self, &b->call, err));
    double again = lap(&at);
    out->f = again < out->f ? again : out->f;
    WEFT_TRY(ops->backward_input(b->stage.self, &b->call, err));
    out->i = lap(&at);
    WEFT_TRY(ops->backward_weight(b->stage.self, &b->call, err));
    out->w = lap(&at);
    return WEFT_OK;
}

/* Stores the minimum over all rounds, because other processes can only increase the time.  The
 * first round, with cold caches and pages, is not counted. */
static enum weft_status time_passes(struct layout_bench *b, struct wf_auto_times *out,
                                    struct weft_error *err)
{
    struct wf_auto_times t;
    int64_t begin = wf_clock_ns();
    WEFT_TRY(run_passes(b, &t, err));
    WEFT_TRY(run_passes(b, out, err));
    for (int n = 1; n < REPEATS && wf_clock_ns() - begin < ITEM_NS; n++) {
        WEFT_TRY(run_passes(b, &t, err));
        out->f = fmin(out->f, t.f);
        out->i = fmin(out->i, t.i);
        out->w = fmin(out->w, t.w);
        out->b = fmin(out->b, t.b);
    }
    return WEFT_OK;
}

/* Scales times of the probe to the model.  Most of the head's backward pass runs in its forward
 * pass; the remaining part grows only with the number of tokens. */
static struct wf_auto_times scaled(const struct wf_auto_times *t, const struct wf_auto_probe *p,
                                   uint32_t item)
{
    struct weft_item by = p->scale[item];
    if (item == 2)
        by.i = by.w = p->scale[0].f;
    double parts = t->i + t->w, whole = t->i * by.i + t->w * by.w;
    return (struct wf_auto_times){t->f * by.f, t->i * by.i, t->w * by.w,
                                  parts > 0 ? t->b / parts * whole : t->b};
}

/* -- updates and sums ---------------------------------------------------------------------- */

static void pack_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct wf_tstage *stage = arg;
    size_t n;
    wf_tstage_pack_rows(stage, &wf_tstage_params(stage, &n)[tensor], row0, row1);
}

static enum weft_status time_update(struct layout_bench *b, struct wf_pool *pool,
                                    struct wf_auto_profile *out, struct weft_error *err)
{
    static const struct wf_optim_settings how = {0.9, 0.95, 1e-8, 0.1};
    struct wf_optim *optim = NULL;
    size_t n_params, n = 0;
    const struct wf_param *params = wf_tstage_params(b->t, &n_params);
    for (size_t i = 0; i < n_params; i++)
        n += params[i].n;
    WEFT_TRY(wf_optim_new_stage(b->t, &how, pool, &optim, err));

    for (uint64_t i = 0; i <= 3; i++) { /* round 0 allocates pages and is not counted */
        int64_t at = wf_clock_ns();
        double norm = sqrt(wf_optim_norm_squared(optim));
        const struct wf_optim_step step = {i + 1, 1e-6, norm > 1 ? 1 / norm : 1};
        wf_optim_update(optim, &step, pack_rows, b->t);
        double update = lap(&at) / (double)n;
        wf_tstage_pack(b->t);
        double pack = lap(&at) / (double)n;
        out->update = i < 2 ? update : fmin(out->update, update);
        out->pack = i < 2 ? pack : fmin(out->pack, pack);
    }

    wf_optim_free(optim);
    return WEFT_OK;
}

struct measured_sum {
    int64_t *a, *b;
};

static void sum_tile(void *arg, size_t task, unsigned worker)
{
    const struct measured_sum *job = arg;
    (void)worker;
    (void)wf_ops()->exact_merge(job->a + task * SUM_TILE, job->b + task * SUM_TILE, SUM_TILE);
}

static enum weft_status time_sum(struct wf_pool *pool, struct wf_auto_profile *out,
                                 struct weft_error *err)
{
    size_t n = (size_t)SUM_TILE * N_SUM_TILES;
    struct measured_sum job = {calloc(n, sizeof(int64_t)), calloc(n, sizeof(int64_t))};
    enum weft_status st = WEFT_OK;
    if (job.a == NULL || job.b == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to measure sums");
    for (size_t i = 0; st == WEFT_OK && i <= 3; i++) {
        int64_t at = wf_clock_ns();
        wf_pool_run(pool, N_SUM_TILES, sum_tile, &job);
        double seconds = lap(&at) / (double)n;
        out->sum = i < 2 ? seconds : fmin(out->sum, seconds);
    }
    free(job.a);
    free(job.b);
    return st;
}

/* -- one rank ------------------------------------------------------------------------------ */

static enum weft_status sync_ranks(struct weft_comm *comm, struct weft_error *err)
{
    return weft_comm_size(comm) == 1 ? WEFT_OK : weft_comm_barrier(comm, err);
}

static enum weft_status time_item(struct weft_comm *comm, const struct wf_auto_probe *p,
                                  uint32_t item, struct wf_pool *pool,
                                  struct wf_auto_profile *out, struct weft_error *err)
{
    struct layout_bench b = {0};
    struct wf_auto_times *to[] = {&out->embedding, &out->layer, &out->head}, t = {0};
    enum weft_status st = make_bench(&b, p, item, pool, err);
    if (st == WEFT_OK)
        st = sync_ranks(comm, err);
    if (st == WEFT_OK)
        st = time_passes(&b, &t, err);
    if (st == WEFT_OK)
        *to[item] = scaled(&t, p, item);
    if (st == WEFT_OK && item == 1)
        st = sync_ranks(comm, err);
    if (st == WEFT_OK && item == 1)
        st = time_update(&b, pool, out, err);
    release_bench(&b);
    return st;
}

enum weft_status wf_auto_measure(struct weft_comm *comm, const struct wf_auto_probe *probe,
                                 uint32_t threads, struct wf_auto_profile *out,
                                 struct weft_error *err)
{
    struct wf_pool *pool = NULL;
    *out = (struct wf_auto_profile){.threads = threads};
    WEFT_TRY(wf_pool_new(threads, &pool, err));
    enum weft_status st = WEFT_OK;
    for (uint32_t item = 0; st == WEFT_OK && item < 3; item++)
        st = time_item(comm, probe, item, pool, out, err);
    if (st == WEFT_OK)
        st = sync_ranks(comm, err);
    if (st == WEFT_OK)
        st = time_sum(pool, out, err);
    wf_pool_free(pool);
    return st;
}

/* -- messages between ranks ---------------------------------------------------------------- */

static enum weft_status ping(struct weft_comm *comm, char *data, char *buffer, size_t bytes,
                             struct weft_error *err)
{
    uint32_t last = weft_comm_size(comm) - 1, rank = weft_comm_rank(comm);
    for (uint32_t k = 0; k < 2; k++) {
        bool sends = (k == 0) == (rank == 0);
        struct weft_message m = {.peer = rank == 0 ? last : 0,
                                 .channel = WEFT_USER_CHANNEL,
                                 .bytes = bytes,
                                 .data = sends ? data : buffer};
        WEFT_TRY(sends ? weft_comm_send(comm, &m, err) : weft_comm_post(comm, &m, err));
        WEFT_TRY(weft_comm_wait(comm, &m, err));
        if (!sends)
            weft_comm_release(comm, &m);
    }
    return WEFT_OK;
}

static enum weft_status time_pings(struct weft_comm *comm, char *data, char *buffer,
                                   size_t bytes, double *out, struct weft_error *err)
{
    double seconds[PINGS];
    for (int i = -3; i < PINGS; i++) {
        int64_t at = wf_clock_ns();
        WEFT_TRY(ping(comm, data, buffer, bytes, err));
        seconds[i < 0 ? 0 : i] = lap(&at) / 2;
    }
    *out = wf_median(seconds, PINGS);
    return WEFT_OK;
}

enum weft_status wf_auto_measure_hops(struct weft_comm *comm, double *hop, double *link,
                                      struct weft_error *err)
{
    enum { SMALL = 64, LARGE = 1 << 20 };
    uint32_t size = weft_comm_size(comm), rank = weft_comm_rank(comm);
    double small = 0, large = 0;
    *hop = *link = 0;
    if (size == 1)
        return WEFT_OK;

    if (rank == 0 || rank == size - 1) {
        char *data = calloc(1, LARGE), *buffer = calloc(1, LARGE);
        enum weft_status st = WEFT_OK;
        if (data == NULL || buffer == NULL)
            st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to measure messages");
        if (st == WEFT_OK)
            st = time_pings(comm, data, buffer, SMALL, &small, err);
        if (st == WEFT_OK)
            st = time_pings(comm, data, buffer, LARGE, &large, err);
        free(data);
        free(buffer);
        WEFT_TRY(st);
    }

    *hop = small;
    if (!weft_comm_by_reference(comm) && large > small)
        *link = (large - small) / LARGE;
    return weft_comm_barrier(comm, err);
}

/* -- threads ------------------------------------------------------------------------------- */

size_t wf_auto_thread_counts(uint32_t cores, uint32_t ranks, uint32_t given,
                             uint32_t out[WF_AUTO_MAX_PROFILES])
{
    uint32_t max = cores / (ranks == 0 ? 1 : ranks);
    size_t n = 0;
    if (given != 0) {
        out[0] = given;
        return 1;
    }
    max = max == 0 ? 1 : max;
    for (uint32_t t = 1; t <= max && n < WF_AUTO_MAX_PROFILES; t++)
        if ((t & (t - 1)) == 0 || t == max || t == max / 2 || t == max / 3)
            out[n++] = t;
    return n;
}
