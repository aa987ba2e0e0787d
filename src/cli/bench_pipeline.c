/* How fast pipelines run: ranks of one thread against one rank of many, the bubble against what the
 * simulator says of it, replicas, and the way from rank to rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "cli/bench.h"
#include "data/shard.h"
#include "kern/isa.h"
#include "train/trainer.h"
#include "weft/sim.h"
#include "weft/timing.h"

enum { PATH = 64 };

/* -- one layout ----------------------------------------------------------------------------- */

struct measured {
    double tok_s;
    double bubble, bubble_sim; /* of the last step; by the simulator from its own costs */
};

struct layout_run {
    const struct weft_train_settings *settings;
    uint32_t steps;
    struct measured *out; /* filled by rank 0 */
};

static enum weft_status predict(struct weft_trainer *t, struct measured *out, bool root,
                                struct weft_error *err)
{
    struct weft_trace trace;
    struct weft_measured_cost m;
    struct weft_metrics metrics;
    const struct weft_layout *l = weft_trainer_info(t).layout;
    WEFT_TRY(weft_trainer_trace(t, 0, &trace, err));
    if (!root)
        return WEFT_OK;
    enum weft_status st = weft_measured_cost_init(&m, &trace, err);
    weft_trace_release(&trace);
    WEFT_TRY(st);
    const struct weft_cost cost = {.f = {m.f, m.n_stages},
                                   .i = {m.i, m.n_stages},
                                   .w = {m.w, m.n_stages},
                                   .b = {m.b, m.n_stages},
                                   .fb = {m.fb, m.n_stages}};
    st = weft_metrics_init(&metrics, weft_layout_schedule(l, 0), &cost, NULL, err);
    if (st == WEFT_OK) {
        out->bubble_sim = metrics.bubble;
        weft_metrics_release(&metrics);
    }
    weft_measured_cost_release(&m);
    return st;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct layout_run *run = arg;
    struct weft_trainer *t = NULL;
    struct weft_step_result r;
    double best = 0;
    bool root = weft_comm_rank(comm) == 0;
    WEFT_TRY(weft_trainer_new(run->settings, comm, &t, err));
    enum weft_status st = weft_trainer_step(t, &r, err); /* the caches are cold */
    for (uint32_t i = 0; st == WEFT_OK && i < run->steps; i++) {
        st = weft_trainer_step(t, &r, err);
        double rate = (double)r.tokens / ((double)r.ns * 1e-9);
        if (st != WEFT_OK || rate <= best)
            continue;
        best = rate;
        if (root)
            *run->out = (struct measured){.tok_s = rate, .bubble = r.bubble};
        st = predict(t, run->out, root, err);
    }
    weft_trainer_free(t);
    return st;
}

/* -- the way from rank to rank -------------------------------------------------------------- */

struct ping {
    size_t bytes;
    uint32_t rounds;
    double seconds; /* of one way */
};

static enum weft_status ping_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct ping *p = arg;
    uint32_t rank = weft_comm_rank(comm);
    char *data = calloc(1, p->bytes), *room = calloc(1, p->bytes);
    enum weft_status st = WEFT_OK;
    if (data == NULL || room == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a message of %zu bytes", p->bytes);
    int64_t begin = 0;
    for (uint32_t i = 0; st == WEFT_OK && i < 2 * p->rounds; i++) {
        struct weft_message out = {
            .peer = 1 - rank, .channel = WEFT_USER_CHANNEL, .bytes = p->bytes, .data = data};
        struct weft_message in = {
            .peer = 1 - rank, .channel = WEFT_USER_CHANNEL, .bytes = p->bytes, .data = room};
        if (i == p->rounds) /* the first half warms up */
            begin = weft_clock_ns();
        st = weft_comm_post(comm, &in, err);
        if (st == WEFT_OK && rank == 0)
            st = weft_comm_send(comm, &out, err);
        if (st == WEFT_OK)
            st = weft_comm_wait(comm, &in, err);
        if (st == WEFT_OK)
            weft_comm_release(comm, &in);
        if (st == WEFT_OK && rank == 1)
            st = weft_comm_send(comm, &out, err);
        if (st == WEFT_OK)
            st = weft_comm_wait(comm, &out, err);
    }
    if (rank == 0 && st == WEFT_OK)
        p->seconds = (double)(weft_clock_ns() - begin) * 1e-9 / (2.0 * p->rounds);
    free(data);
    free(room);
    return st;
}

/* -- settings ------------------------------------------------------------------------------- */

struct pipeline_bench {
    const struct weft_bench_compute *s;
    struct weft_train_settings settings;
    char tokens[PATH];
    uint32_t ranks;
    struct measured one, pipeline, replicas;
    struct ping small, large;
};

static enum weft_status set(struct pipeline_bench *b, const char *key, const char *value,
                            struct weft_error *err)
{
    return weft_settings_set(weft_train_setting_list(), key, value, &b->settings, err);
}

static enum weft_status set_number(struct pipeline_bench *b, const char *key, uint32_t value,
                                   struct weft_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%u", value);
    return set(b, key, text, err);
}

/* Random tokens, for two steps. */
static enum weft_status write_tokens(struct pipeline_bench *b, struct weft_error *err)
{
    struct weft_model model;
    size_t n = 2 * (size_t)b->s->batch * b->s->micros * b->s->seq + 1;
    WEFT_TRY(weft_model_find(b->s->spec, &model, err));
    int32_t *tokens = malloc(n * sizeof *tokens);
    snprintf(b->tokens, sizeof b->tokens, "/tmp/weft_bench_XXXXXX");
    int fd = mkstemp(b->tokens);
    if (fd >= 0)
        close(fd);
    if (tokens == NULL || fd < 0) {
        free(tokens);
        return WEFT_FAIL(err, WEFT_IO, "no place for %zu tokens in /tmp", n);
    }
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)weft_random_below(7, 0, i, model.vocab);
    enum weft_status st = weft_shard_write(b->tokens, model.vocab, tokens, n, err);
    free(tokens);
    return st;
}

static enum weft_status make_settings(struct pipeline_bench *b, struct weft_error *err)
{
    WEFT_TRY(weft_settings_init(weft_train_setting_list(), &b->settings, err));
    WEFT_TRY(set(b, "model.spec", b->s->spec, err));
    WEFT_TRY(set(b, "data.train", b->tokens, err));
    WEFT_TRY(set(b, "train.precision", b->s->precision, err));
    WEFT_TRY(set(b, "parallel.schedule", b->s->schedule, err));
    WEFT_TRY(set_number(b, "data.seq", b->s->seq, err));
    WEFT_TRY(set_number(b, "data.batch", b->s->batch * b->s->micros, err));
    return set_number(b, "parallel.micros", b->s->micros, err);
}

/* -- the measurements ----------------------------------------------------------------------- */

static enum weft_status measure_layout(struct pipeline_bench *b, uint32_t pp, uint32_t dp,
                                       uint32_t threads, struct measured *out,
                                       struct weft_error *err)
{
    struct layout_run run = {&b->settings, b->s->repeat, out};
    WEFT_TRY(set_number(b, "parallel.pp", pp, err));
    WEFT_TRY(set_number(b, "parallel.dp", dp, err));
    WEFT_TRY(set_number(b, "parallel.threads", threads, err));
    WEFT_TRY(set(b, "parallel.schedule", pp == 1 ? "1f1b" : b->s->schedule, err));
    return weft_comm_run_threads(pp * dp, run_rank, &run, err);
}

static enum weft_status measure_hops(struct pipeline_bench *b, struct weft_error *err)
{
    b->small = (struct ping){.bytes = 64, .rounds = 20000};
    b->large = (struct ping){.bytes = (size_t)64 << 20, .rounds = 20000};
    WEFT_TRY(weft_comm_run_threads(2, ping_rank, &b->small, err));
    return weft_comm_run_threads(2, ping_rank, &b->large, err);
}

static enum weft_status measure(struct pipeline_bench *b, struct weft_error *err)
{
    WEFT_TRY(measure_hops(b, err));
    WEFT_TRY(measure_layout(b, 1, 1, b->ranks, &b->one, err));
    WEFT_TRY(measure_layout(b, b->ranks, 1, 1, &b->pipeline, err));
    return measure_layout(b, 1, b->ranks, 1, &b->replicas, err);
}

/* -- what is printed ------------------------------------------------------------------------ */

static double against(double rate, const struct pipeline_bench *b, double bubble)
{
    return rate / (b->one.tok_s * (1 - bubble));
}

static void put_measured(struct weft_json *j, const char *name, const struct measured *m,
                         double share)
{
    weft_json_begin(j, name, '{');
    weft_json_number(j, "tok_s", m->tok_s);
    weft_json_number(j, "bubble", m->bubble);
    weft_json_number(j, "bubble_sim", m->bubble_sim);
    weft_json_number(j, "share", share);
    weft_json_end(j, '}');
}

static void print_json(const struct pipeline_bench *b)
{
    struct weft_json j = {.out = stdout};
    weft_json_begin(&j, NULL, '{');
    weft_json_string(&j, "spec", b->s->spec);
    weft_json_string(&j, "schedule", b->s->schedule);
    weft_json_uint(&j, "ranks", b->ranks);
    weft_json_uint(&j, "micros", b->s->micros);
    weft_json_number(&j, "hand_over_us", b->small.seconds * 1e6);
    weft_json_number(&j, "hand_over_64mib_us", b->large.seconds * 1e6);
    put_measured(&j, "one_rank", &b->one, 1);
    put_measured(&j, "pipeline", &b->pipeline,
                 against(b->pipeline.tok_s, b, b->pipeline.bubble_sim));
    put_measured(&j, "replicas", &b->replicas, against(b->replicas.tok_s, b, 0));
    weft_json_end(&j, '}');
    putchar('\n');
}

static void print_text(const struct pipeline_bench *b)
{
    printf("%s, %s, %u micros of %u x %u tokens, schedule %s, %s\n", b->s->spec,
           b->s->precision, b->s->micros, b->s->batch, b->s->seq, b->s->schedule,
           weft_isa_name(weft_isa()));
    printf("hand-over       %.2f us for 64 bytes, %.2f us for 64 MiB\n", b->small.seconds * 1e6,
           b->large.seconds * 1e6);
    printf("1 rank          %u threads: %.1f tokens/s\n", b->ranks, b->one.tok_s);
    printf("pipeline        %u ranks of 1 thread: %.1f tokens/s, %.1f%% of what its planned "
           "bubble allows; bubble %.1f%%, simulated %.1f%%\n",
           b->ranks, b->pipeline.tok_s,
           100 * against(b->pipeline.tok_s, b, b->pipeline.bubble_sim),
           100 * b->pipeline.bubble, 100 * b->pipeline.bubble_sim);
    printf("replicas        %u ranks of 1 thread: %.1f tokens/s, %.1f%% of the ideal\n",
           b->ranks, b->replicas.tok_s, 100 * against(b->replicas.tok_s, b, 0));
}

enum weft_status weft_bench_pipeline(const struct weft_bench_compute *s, struct weft_error *err)
{
    struct pipeline_bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a benchmark");
    b->s = s;
    b->ranks = s->ranks;
    enum weft_status st = write_tokens(b, err);
    if (st == WEFT_OK)
        st = make_settings(b, err);
    if (st == WEFT_OK)
        st = measure(b, err);
    if (st == WEFT_OK)
        s->json ? print_json(b) : print_text(b);
    weft_settings_release(weft_train_setting_list(), &b->settings);
    if (b->tokens[0] != '\0')
        unlink(b->tokens);
    free(b);
    return st;
}
