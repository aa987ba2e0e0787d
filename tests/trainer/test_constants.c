/* Compares losses, norms and final weights of short runs with recorded hashes.  The same hashes
 * must come out on every machine and for every instruction set (WEFT_ISA), compiler,
 * optimization level, layout and number of threads.  tests/kern/test_same_bits.c finds the
 * kernel if they do not.  A change of results on purpose needs new hashes, which a failing test
 * prints. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/hash.h"
#include "compute/kern/isa.h"
#include "compute/model/stage.h"
#include "runs.h"
#include "training/layout/topology.h"
#include "weft/comm.h"

enum { STEPS = 3, MAX_PARAMS = 100 };

/* The hashes of a run's results.  Ranks add theirs; copies of a tensor must be equal. */
struct results {
    struct wf_train_settings settings;
    pthread_mutex_t lock;
    uint64_t steps; /* losses and norms, which every rank knows */
    size_t n;
    struct tensor_hash {
        char name[96];
        uint64_t hash;
    } tensors[MAX_PARAMS];
    bool differ;
};

static void add_tensor(struct results *r, const struct wf_param *p)
{
    uint64_t h = wf_hash(0, p->value, p->n * sizeof *p->value);
    size_t i = 0;
    while (i < r->n && strcmp(r->tensors[i].name, p->desc.name) != 0)
        i++;
    if (i < r->n) {
        r->differ |= r->tensors[i].hash != h;
        return;
    }
    r->n += i < MAX_PARAMS;
    r->differ |= i == MAX_PARAMS;
    if (i < MAX_PARAMS) {
        snprintf(r->tensors[i].name, sizeof r->tensors[i].name, "%s", p->desc.name);
        r->tensors[i].hash = h;
    }
}

static enum weft_status run_steps(struct results *r, struct wf_trainer *t,
                                  struct weft_error *err)
{
    uint64_t steps = 0;
    for (int i = 0; i < STEPS; i++) {
        struct wf_step_result s;
        WEFT_TRY(wf_trainer_step(t, &s, err));
        steps = wf_hash(steps, &s.loss, sizeof s.loss);
        steps = wf_hash(steps, &s.grad_norm, sizeof s.grad_norm);
    }

    pthread_mutex_lock(&r->lock);
    r->differ |= r->steps != 0 && r->steps != steps;
    r->steps = steps;
    for (uint32_t stage = 0; stage < wf_trainer_info(t).topology->n_stages; stage++) {
        size_t n = 0;
        const struct wf_param *params = wf_trainer_params(t, stage, &n);
        for (size_t i = 0; i < n; i++)
            add_tensor(r, &params[i]);
    }
    pthread_mutex_unlock(&r->lock);
    return WEFT_OK;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct results *r = arg;
    struct wf_trainer *t = NULL;
    WEFT_TRY(wf_trainer_new(&r->settings, comm, &t, err));
    enum weft_status st = run_steps(r, t, err);
    wf_trainer_free(t);
    return st;
}

static const struct layout {
    const char *pp, *dp, *chunks, *schedule, *threads;
} layouts[] = {
    {"1", "1", "1", "1f1b", "1"},  {"1", "1", "1", "1f1b", "2"}, {"1", "1", "1", "1f1b", "3"},
    {"2", "1", "1", "zb-h1", "1"}, {"2", "2", "1", "1f1b", "1"}, {"1", "4", "1", "gpipe", "2"},
    {"2", "1", "2", "zb-v", "1"},
};

static uint64_t hash_layout(const char *run, const char *precision, const struct layout *l)
{
    struct results r = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct weft_error err = {0};
    run_settings(&r.settings, run);
    run_set(&r.settings, "parallel.micros", "4");
    run_set(&r.settings, "train.precision", precision);
    run_set(&r.settings, "parallel.pp", l->pp);
    run_set(&r.settings, "parallel.dp", l->dp);
    run_set(&r.settings, "parallel.chunks", l->chunks);
    run_set(&r.settings, "parallel.schedule", l->schedule);
    run_set(&r.settings, "parallel.threads", l->threads);

    uint32_t n = r.settings.parallel.pp * r.settings.parallel.dp;
    if (weft_comm_run_threads(n, run_rank, &r, &err) != WEFT_OK)
        fail_msg("%s: %s", run, err.msg);
    assert_false(r.differ);
    wf_settings_release(wf_train_setting_list(), &r.settings);

    uint64_t h = r.steps; /* the order of ranks does not matter */
    for (size_t i = 0; i < r.n; i++)
        h += wf_hash(r.tensors[i].hash, r.tensors[i].name, strlen(r.tensors[i].name));
    return h;
}

static const struct constant {
    const char *run, *precision;
    uint64_t hash;
} constants[] = {
    {"gpt2-tiny", "fp32", UINT64_C(0x90e1d96f9b731ba8)},
    {"gpt2-tiny", "bf16", UINT64_C(0x02bd805dc385af75)},
    {"llama-tiny", "fp32", UINT64_C(0x0a4602b05afa881b)},
    {"llama-tiny", "bf16", UINT64_C(0x43712c690f5e9c7b)},
    {"llama-tiny-tied-residual", "fp32", UINT64_C(0x180f73c35a1fabc8)},
    {"llama-tiny-tied-residual", "bf16", UINT64_C(0xde65c4aea21ed287)},
};

static void check_constant(void **state)
{
    const struct constant *c = *state;
    for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
        const struct layout *l = &layouts[i];
        uint64_t h = hash_layout(c->run, c->precision, l);
        if (h != c->hash)
            fail_msg("%s, %s, %s, pp %s, dp %s, chunks %s, %s, %s threads: "
                     "the hash is 0x%016" PRIx64,
                     c->run, c->precision, wf_isa_name(wf_isa()), l->pp, l->dp, l->chunks,
                     l->schedule, l->threads, h);
    }
}

int main(void)
{
    static char names[WEFT_LEN(constants)][64];
    struct CMUnitTest tests[WEFT_LEN(constants)];
    for (size_t i = 0; i < WEFT_LEN(constants); i++) {
        snprintf(names[i], sizeof names[i], "%s, %s", constants[i].run, constants[i].precision);
        tests[i] =
            (struct CMUnitTest){names[i], check_constant, NULL, NULL, (void *)&constants[i]};
    }
    return cmocka_run_group_tests_name("constants", tests, NULL, NULL) != 0;
}
