/* Checks the choice of a layout from invented times, for which the best layout is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/layout/auto.h"
#include "training/layout/topology.h"

/* The forward of a layer takes 1 s with one thread, its backward 1 + 1 s. */
enum scaling {
    PERFECT, /* n threads take 1/n of the time */
    NONE,    /* threads do not help */
};

struct auto_case {
    const char *name;
    const char *settings; /* "key=value key=value" */
    uint32_t cores, ranks, ranks_per_host;
    enum scaling scaling;
    double hop, sum, link;
    /* 0: not checked */
    uint32_t pp, dp, threads;
    const char *schedule;
    double seconds;
};

static const struct auto_case cases[] = {
    /* 4 micros of 4 layers of 3 s, on 4 cores. */
    {"one rank if threads scale", "parallel.micros=4", .cores = 4, .scaling = PERFECT, .pp = 1,
     .dp = 1, .threads = 4, .seconds = 4 * 4 * 3 / 4.0},
    {"replicas if threads do not scale", "parallel.micros=4", .cores = 4, .scaling = NONE,
     .pp = 1, .dp = 4, .threads = 1, .seconds = 4 * 3},
    {"a pipeline if reductions are slow", "parallel.micros=16", .cores = 4, .scaling = NONE,
     .sum = 1, .pp = 4, .dp = 1, .threads = 1},
    {"one rank if messages are slow", "parallel.micros=4", .cores = 4, .scaling = NONE,
     .hop = 1e4, .pp = 1, .dp = 1, .seconds = 4 * 4 * 3},
    {"threads if there is one micro-batch", "parallel.micros=1", .cores = 4, .scaling = PERFECT,
     .pp = 1, .dp = 1, .threads = 4, .seconds = 4 * 3 / 4.0},
    /* (M + P - 1) (F + B), F + B = 2 layers of 3 s. */
    {"the time of a pipeline matches the formula",
     "parallel.micros=8 parallel.pp=2 parallel.dp=1 parallel.schedule=1f1b "
     "parallel.threads=1 parallel.partition=even",
     .cores = 2, .scaling = NONE, .pp = 2, .dp = 1, .threads = 1, .schedule = "1f1b",
     .seconds = (8 + 2 - 1) * 2 * 3},
    {"a given pp is kept", "parallel.micros=4 parallel.pp=2", .cores = 4, .scaling = PERFECT,
     .pp = 2},
    {"a given pp of 1 is kept", "parallel.micros=16 parallel.pp=1", .cores = 4, .scaling = NONE,
     .sum = 1, .pp = 1},
    {"a given dp is kept", "parallel.micros=4 parallel.dp=2", .cores = 4, .scaling = PERFECT,
     .dp = 2},
    {"a given schedule is kept", "parallel.micros=16 parallel.dp=1 parallel.schedule=gpipe",
     .cores = 2, .scaling = NONE, .pp = 2, .dp = 1, .schedule = "gpipe"},
    {"a given number of threads is kept", "parallel.micros=4 parallel.threads=2", .cores = 4,
     .scaling = PERFECT, .threads = 2},
    {"more ranks than cores share the cores", "parallel.micros=4 parallel.pp=1 parallel.dp=4",
     .cores = 2, .scaling = PERFECT, .pp = 1, .dp = 4, .threads = 1, .seconds = 2 * 4 * 3},
    {"all ranks of MPI are used", "parallel.micros=4", .cores = 4, .ranks = 4,
     .scaling = PERFECT, .pp = 1, .dp = 4, .threads = 1},
    {"each replica needs a micro-batch", "parallel.micros=1", .cores = 3, .ranks = 3,
     .scaling = PERFECT, .pp = 3, .dp = 1, .threads = 1},
};

static void set(struct wf_train_settings *s, const char *key, const char *value)
{
    struct weft_error err = {0};
    if (wf_settings_set(wf_train_setting_list(), key, value, s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static void make_settings(struct wf_train_settings *s, const char *words)
{
    static const char *const always[][2] = {
        {"model.arch", "llama"}, {"model.layers", "4"}, {"model.dim", "16"},
        {"model.heads", "2"},    {"model.ffn", "32"},   {"model.vocab", "64"},
        {"model.ctx", "8"},      {"data.batch", "16"},
    };
    char text[400], *rest = NULL;
    assert_int_equal(wf_settings_init(wf_train_setting_list(), s, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(always); i++)
        set(s, always[i][0], always[i][1]);
    snprintf(text, sizeof text, "%s", words);
    for (char *w = strtok_r(text, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(w, '=');
        *value = '\0';
        set(s, w, value + 1);
    }
}

static size_t make_speeds(struct wf_auto_profile *out, uint32_t cores, uint32_t given,
                          enum scaling scaling, double sum)
{
    uint32_t threads[WF_AUTO_MAX_PROFILES];
    size_t n = wf_auto_thread_counts(cores, 1, given, threads);
    for (size_t i = 0; i < n; i++) {
        double t = scaling == PERFECT ? 1.0 / threads[i] : 1;
        out[i] = (struct wf_auto_profile){
            .threads = threads[i], .layer = {t, t, t, 2 * t}, .sum = sum};
    }
    return n;
}

static enum weft_status rank_case(const struct auto_case *c, size_t bytes,
                                  struct wf_auto_candidates *out, struct weft_error *err)
{
    struct wf_train_settings s;
    struct wf_auto_profile profiles[WF_AUTO_MAX_PROFILES];
    struct weft_model model;

    make_settings(&s, c->settings);
    struct wf_auto_machine machine = {.ranks = c->ranks,
                                      .cores = c->cores,
                                      .ranks_per_host = c->ranks_per_host,
                                      .bytes = bytes,
                                      .hop = c->hop,
                                      .link = c->link,
                                      .profiles = profiles};

    machine.n_profiles =
        make_speeds(profiles, c->ranks == 0 ? c->cores : c->cores / c->ranks,
                    s.parallel.given.threads ? s.parallel.threads : 0, c->scaling, c->sum);

    assert_int_equal(wf_train_settings_model(&s, &model, NULL), WEFT_OK);
    enum weft_status st = wf_auto_choose(&s, &model, &machine, out, err);

    /* A given schedule's name belongs to the settings, which are freed below. */
    for (size_t i = 0; st == WEFT_OK && i < out->n; i++) {
        const struct weft_generator *g = weft_generator_find(out->at[i].schedule);
        out->at[i].schedule = g == NULL ? "" : g->name;
    }

    wf_settings_release(wf_train_setting_list(), &s);
    return st;
}

static void check_case(void **state)
{
    const struct auto_case *c = *state;
    struct wf_auto_candidates list = {0};
    struct weft_error err = {0};

    if (rank_case(c, 0, &list, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_true(list.n > 0);

    const struct wf_auto_candidate *best = &list.at[0];
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_auto_candidate *o = &list.at[i];
        assert_true(best->seconds <= WF_AUTO_TOLERANCE * o->seconds);
        assert_true(o->pp <= 4 && o->dp <= 16);
        if (c->ranks != 0)
            assert_int_equal(o->pp * o->dp, c->ranks);
    }

    if (c->pp != 0)
        assert_int_equal(best->pp, c->pp);
    if (c->dp != 0)
        assert_int_equal(best->dp, c->dp);
    if (c->threads != 0)
        assert_int_equal(best->threads, c->threads);

    assert_true(best->gap >= 0 && (best->pp > 1 || best->gap < 1e-6));
    if (c->schedule != NULL)
        assert_string_equal(best->schedule, c->schedule);
    if (c->seconds != 0)
        assert_true(best->pipeline > 0.999999 * c->seconds &&
                    best->pipeline < 1.000001 * c->seconds);

    wf_auto_candidates_release(&list);
}

static const struct wf_auto_candidate *find(const struct wf_auto_candidates *l, uint32_t pp,
                                            uint32_t dp)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i].pp == pp && l->at[i].dp == dp)
            return &l->at[i];
    return NULL;
}

/* On two hosts with one rank each, replicas need the memory for the whole model, which
 * exceeds the limit. */
static void check_memory(void **state)
{
    (void)state;
    const struct auto_case c = {"", "parallel.micros=4 parallel.schedule=1f1b", .cores = 2,
                                .ranks = 2, .ranks_per_host = 1};
    struct wf_auto_candidates list = {0};
    struct weft_error err = {0};
    assert_int_equal(rank_case(&c, 0, &list, &err), WEFT_OK);
    assert_int_equal(list.at[0].dp, 2);
    size_t whole = find(&list, 1, 2)->rank_bytes;
    wf_auto_candidates_release(&list);

    assert_int_equal(rank_case(&c, whole - 1, &list, &err), WEFT_OK);
    assert_int_equal(list.at[0].pp, 2);
    assert_true(list.n_over_limit > 0);
    assert_null(find(&list, 1, 2));
    for (size_t i = 0; i < list.n; i++)
        assert_true(list.at[i].rank_bytes < whole);
    wf_auto_candidates_release(&list);

    assert_int_equal(rank_case(&c, 1000, &list, &err), WEFT_NOMEM);
    assert_non_null(strstr(err.msg, "none of"));
    assert_null(list.at);
}

/* The bytes of a candidate equal those of its topology. */
static void check_bytes(void **state)
{
    (void)state;
    const struct auto_case c = {
        "", "parallel.micros=8 parallel.pp=2 parallel.dp=2 parallel.schedule=zb-h1",
        .cores = 4};
    struct wf_auto_candidates list = {0};
    struct wf_train_settings s;
    struct weft_model model;
    struct wf_topology l;
    size_t max = 0, total = 0;

    assert_int_equal(rank_case(&c, 0, &list, NULL), WEFT_OK);
    make_settings(&s, c.settings);
    assert_int_equal(wf_train_settings_model(&s, &model, NULL), WEFT_OK);
    assert_int_equal(wf_topology_init(&l, &s, &model, NULL), WEFT_OK);

    for (uint32_t r = 0; r < 4; r++) {
        struct wf_rank_bytes b;
        l.threads = list.at[0].threads;
        assert_int_equal(wf_topology_rank_bytes(&l, r, false, &b, NULL), WEFT_OK);
        max = wf_size_max(max, b.total);
        total += b.total;
    }

    assert_int_equal(list.at[0].rank_bytes, max);
    assert_int_equal(list.at[0].total_bytes, total);

    wf_topology_release(&l);
    wf_settings_release(wf_train_setting_list(), &s);
    wf_auto_candidates_release(&list);
}

/* Two replicas exchange sums of 8 bytes, or of 4 with fast sums, and values of 4 bytes.  With n
 * elements, the rank that owns a of them transfers 8 a + 4 (n - a) bytes, and a is at least half
 * of n on one rank. */
static void check_reduction(void **state)
{
    (void)state;
    struct auto_case c = {.settings = "parallel.pp=1 parallel.dp=2 parallel.micros=2",
                          .cores = 2,
                          .scaling = PERFECT,
                          .link = 1};
    struct wf_auto_candidates exact, fast;
    assert_int_equal(rank_case(&c, 0, &exact, NULL), WEFT_OK);
    c.settings = "parallel.pp=1 parallel.dp=2 parallel.micros=2 train.reduction=fast";
    assert_int_equal(rank_case(&c, 0, &fast, NULL), WEFT_OK);
    double n = fast.at[0].update / 4;
    assert_true(n > 0 && exact.at[0].update >= 6 * n && exact.at[0].update <= 8 * n);
    wf_auto_candidates_release(&exact);
    wf_auto_candidates_release(&fast);
}

/* With 4 layers, 8 ranks cannot form one pipeline; with 1 micro-batch, they
 * cannot be replicas. */
static void check_impossible(void **state)
{
    (void)state;
    const struct auto_case c = {"", "parallel.micros=1", .cores = 8, .ranks = 8};
    struct wf_auto_candidates list = {0};
    struct weft_error err = {0};
    assert_int_equal(rank_case(&c, 0, &list, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "parallel.dp 8 is greater than parallel.micros (1 micro"));
}

/* Reports the minimum number of micros that can run, or 0 if more micros do not help. */
static void check_more_micros(void **state)
{
    (void)state;
    static const struct {
        struct auto_case c;
        uint32_t want;
    } rows[] = {
        {{"", "", .cores = 8, .ranks = 8}, 2}, /* pp 4 x dp 2 */
        {{"", "parallel.dp=5", .cores = 2}, 5},
        {{"", "parallel.dp=17", .cores = 2}, 0}, /* a batch of 16 */
        {{"", "parallel.pp=5", .cores = 2}, 0},  /* 4 layers */
        {{"", "parallel.micros=2 parallel.dp=4", .cores = 2}, 0},
        {{"", "parallel.pp=4 parallel.dp=1 parallel.schedule=dualpipe", .cores = 4}, 8},
        {{"", "parallel.pp=4 parallel.dp=2 parallel.schedule=bitpipe model.layers=8",
          .cores = 8},
         8},
        {{"", "parallel.pp=4 parallel.dp=4 parallel.schedule=dualpipe", .cores = 4}, 0},
        {{"", "parallel.pp=2 parallel.dp=3 parallel.schedule=zb-h2", .cores = 4}, 3},
    };

    for (size_t i = 0; i < WEFT_LEN(rows); i++) {
        struct wf_auto_candidates list = {0};
        struct weft_error err = {0};
        assert_int_equal(rank_case(&rows[i].c, 0, &list, &err), WEFT_USAGE);
        if (list.min_micros != rows[i].want)
            fail_msg("'%s': %u", rows[i].c.settings, list.min_micros);
    }
}

/* No candidate has more stages than layers or more replicas than micros. */
static void check_limits(void **state)
{
    (void)state;
    const struct auto_case c = {"", "parallel.micros=3 model.layers=2", .cores = 6};
    struct wf_auto_candidates list = {0};
    assert_int_equal(rank_case(&c, 0, &list, NULL), WEFT_OK);
    assert_non_null(find(&list, 2, 1));
    for (size_t i = 0; i < list.n; i++) {
        assert_true(list.at[i].pp <= 2);
        assert_true(list.at[i].dp <= 3);
        assert_true(list.at[i].pp * list.at[i].dp * list.at[i].threads <= 6);
    }
    wf_auto_candidates_release(&list);
}

static void check_repeat(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_auto_candidates a = {0}, b = {0};
        assert_int_equal(rank_case(&cases[i], 0, &a, NULL), WEFT_OK);
        assert_int_equal(rank_case(&cases[i], 0, &b, NULL), WEFT_OK);
        assert_int_equal(a.n, b.n);
        for (size_t k = 0; k < a.n; k++) {
            assert_string_equal(a.at[k].schedule, b.at[k].schedule);
            assert_true(a.at[k].pp == b.at[k].pp && a.at[k].dp == b.at[k].dp);
            assert_true(a.at[k].chunks == b.at[k].chunks);
            assert_true(a.at[k].threads == b.at[k].threads);
        }
        wf_auto_candidates_release(&a);
        wf_auto_candidates_release(&b);
    }
}

static void check_thread_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t cores, ranks, given;
        uint32_t n, want[8];
    } rows[] = {
        {1, 1, 0, 1, {1}},       {2, 1, 0, 2, {1, 2}}, {6, 1, 0, 5, {1, 2, 3, 4, 6}},
        {8, 2, 0, 3, {1, 2, 4}}, {2, 4, 0, 1, {1}},    {8, 1, 5, 1, {5}},
    };
    for (size_t i = 0; i < WEFT_LEN(rows); i++) {
        uint32_t got[WF_AUTO_MAX_PROFILES];
        assert_int_equal(
            wf_auto_thread_counts(rows[i].cores, rows[i].ranks, rows[i].given, got), rows[i].n);
        assert_memory_equal(got, rows[i].want, rows[i].n * sizeof *got);
    }
    uint32_t got[WF_AUTO_MAX_PROFILES];
    assert_true(wf_auto_thread_counts(4096, 1, 0, got) <= WF_AUTO_MAX_PROFILES);
}

/* Checks that every measured time is plausible. */
static enum weft_status measure(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct wf_auto_probe *probe = arg;
    struct wf_auto_profile v;
    double hop, link;
    WEFT_TRY(wf_auto_measure(comm, probe, 1, &v, err));
    WEFT_TRY(wf_auto_measure_hops(comm, &hop, &link, err));
    const double figures[] = {v.embedding.f, v.layer.f, v.layer.i, v.layer.w, v.layer.b,
                              v.head.f,      v.update,  v.pack,    v.sum};
    for (size_t i = 0; i < WEFT_LEN(figures); i++)
        if (!(figures[i] > 0 && figures[i] < 60))
            return WEFT_FAIL(err, WEFT_INTERNAL, "figure %zu is %g", i, figures[i]);
    if (link != 0 || (weft_comm_rank(comm) == 0 && !(hop > 0)))
        return WEFT_FAIL(err, WEFT_INTERNAL, "hop %g, link %g", hop, link);
    return WEFT_OK;
}

static void check_measure(void **state)
{
    (void)state;
    static const char *const models[] = {
        "model.arch=llama", "model.arch=gpt2",
        "model.arch=gpt2 model.residual_block_layers=2 train.recompute=full "
        "train.precision=bf16 train.reduction=fast"};
    for (size_t i = 0; i < WEFT_LEN(models); i++) {
        struct wf_train_settings s;
        struct weft_model model;
        struct wf_auto_probe probe;
        struct weft_error err = {0};
        make_settings(&s, models[i]);
        assert_int_equal(wf_train_settings_model(&s, &model, NULL), WEFT_OK);
        assert_int_equal(wf_auto_probe_init(&probe, &s, &model, &err), WEFT_OK);
        if (weft_comm_run_threads(2, measure, &probe, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

/* A micro-batch of 16 x 1024 tokens is measured at a smaller size; the linear part of a layer
 * scales with the number of tokens. */
static void check_scale(void **state)
{
    (void)state;
    struct wf_train_settings s;
    struct weft_model model;
    struct wf_auto_probe probe;
    make_settings(&s, "model.ctx=1024 model.dim=256 model.ffn=1024 model.vocab=50000");
    assert_int_equal(wf_train_settings_model(&s, &model, NULL), WEFT_OK);
    assert_int_equal(wf_auto_probe_init(&probe, &s, &model, NULL), WEFT_OK);
    double tokens = 16 * 1024 / ((double)probe.rows * probe.seq);
    assert_true(tokens >= 16 * 1024 / 512.0);
    assert_true(probe.model.vocab < 50000);
    double vocab = 50000.0 / probe.model.vocab;
    assert_true(probe.scale[2].f > 0.999 * tokens * vocab &&
                probe.scale[2].f < 1.001 * tokens * vocab);
    assert_true(probe.scale[1].w > 0.999 * tokens && probe.scale[1].w < 1.001 * tokens);
    assert_true(probe.scale[1].f > tokens);
    wf_settings_release(wf_train_setting_list(), &s);
}

/* A setting in a file or a flag is given, even if it equals the default. */
static void check_given(void **state)
{
    (void)state;
    static const char file[] = "parallel: {pp: 1, schedule: 1f1b}\n";
    char *argv[] = {"--parallel.threads=auto"};
    const struct wf_setting_list list = wf_train_setting_list();
    struct wf_train_settings s;
    memset(&s, 0xff, sizeof s);
    assert_int_equal(wf_settings_init(list, &s, NULL), WEFT_OK);
    assert_false(s.parallel.given.pp || s.parallel.given.dp || s.parallel.given.chunks ||
                 s.parallel.given.micros || s.parallel.given.schedule ||
                 s.parallel.given.threads);
    assert_int_equal(wf_settings_parse(list, file, sizeof file - 1, "x", &s, NULL), WEFT_OK);
    assert_int_equal(wf_settings_parse_flags(list, 1, argv, &s, NULL), WEFT_OK);
    assert_true(s.parallel.given.pp && s.parallel.given.schedule && s.parallel.given.threads);
    assert_false(s.parallel.given.dp || s.parallel.given.chunks || s.parallel.given.micros);
    wf_settings_release(list, &s);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 11];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_case, NULL, NULL,
                                         (void *)(uintptr_t)&cases[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(check_memory),     cmocka_unit_test(check_bytes),
        cmocka_unit_test(check_impossible), cmocka_unit_test(check_limits),
        cmocka_unit_test(check_repeat),     cmocka_unit_test(check_thread_counts),
        cmocka_unit_test(check_measure),    cmocka_unit_test(check_scale),
        cmocka_unit_test(check_given),      cmocka_unit_test(check_more_micros),
        cmocka_unit_test(check_reduction),
    };
    for (size_t i = 0; i < WEFT_LEN(others); i++)
        tests[n++] = others[i];
    return cmocka_run_group_tests_name("auto", tests, NULL, NULL) != 0;
}
