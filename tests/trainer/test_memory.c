/* Checks that the planned memory of every rank agrees with what the rank allocates.  The
 * allocated bytes are counted by the allocation functions, and by the system. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/kern/gemm.h"
#include "copying.h"
#include "deep.h"
#include "folder.h"
#include "live_bytes.h"
#include "runs.h"
#include "weft/comm.h"

/* A plan is at most 5 % above what the run allocates, and at most 2 % below it. */
#define MAX_RATIO 1.05
#define MIN_RATIO 0.98

/* -- one run ------------------------------------------------------------------------------- */

struct memory_run {
    struct wf_train_settings settings;
    const char *name;
    bool copies;            /* the transport copies messages */
    bool step;              /* run a step: steps allocate nothing, see test_ranks.c */
    const char *save;       /* directory for the weights, or NULL */
    uint32_t sample_tokens; /* 0: no sample */
};

static enum weft_status use_trainer(const struct memory_run *r, struct wf_trainer *t,
                                    struct weft_error *err)
{
    if (r->step) {
        struct wf_step_result result;
        WEFT_TRY(wf_trainer_step(t, &result, err));
        WEFT_TRY(wf_trainer_checkpoint(t, err));
    }
    if (r->sample_tokens != 0) {
        static const int32_t prompt[] = {1};
        int32_t tokens[64];
        const struct wf_sample_spec spec = {.prompt = prompt,
                                            .n_prompt = 1,
                                            .n_tokens = r->sample_tokens,
                                            .end = -1,
                                            .how = {.temperature = 1, .top_p = 1}};
        struct wf_sample_result sample = {.tokens = tokens};
        WEFT_TRY(wf_trainer_sample(t, &spec, &sample, err));
        if (sample.failure.status != WEFT_OK)
            return WEFT_FAIL(err, sample.failure.status, "%s", sample.failure.msg);
    }
    return r->save != NULL ? wf_trainer_save(t, r->save, NULL, err) : WEFT_OK;
}

static enum weft_status compare(const struct memory_run *r, const struct wf_trainer_info *i,
                                size_t peak, struct weft_error *err)
{
    double planned = (double)i->planned_bytes / (double)peak;
    double counted = (double)i->bytes.total / (double)peak;
    if (getenv("WEFT_TEST_VERBOSE") != NULL)
        printf("%-60s rank %u: %9zu allocated, plan %.4f, counted %.4f\n", r->name, i->rank,
               peak, planned, counted);
    if (planned <= MAX_RATIO && planned >= MIN_RATIO && counted <= MAX_RATIO &&
        counted >= MIN_RATIO)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL,
                     "%s, rank %u: %zu bytes allocated, %zu planned, %zu counted", r->name,
                     i->rank, peak, i->planned_bytes, i->bytes.total);
}

static enum weft_status run_trainer_of(const struct memory_run *r, struct weft_comm *comm,
                                       struct weft_error *err)
{
    struct wf_trainer *t = NULL;
    live_begin(weft_comm_rank(comm));
    enum weft_status st = wf_trainer_new(&r->settings, comm, &t, err);
    if (st == WEFT_OK)
        st = use_trainer(r, t, err);
    struct wf_trainer_info info = {0};
    if (st == WEFT_OK)
        info = wf_trainer_info(t);
    wf_trainer_free(t);
    size_t peak = live_end();
    return st == WEFT_OK ? compare(r, &info, peak, err) : st;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct memory_run *r = arg;
    struct weft_comm *copying = NULL;
    if (!r->copies)
        return run_trainer_of(r, comm, err);
    WEFT_TRY(copying_open(comm, COPYING_RENDEZVOUS, &copying, err));
    enum weft_status st = run_trainer_of(r, copying, err);
    copying_close(copying);
    return st;
}

static void run_all(struct memory_run *r)
{
    struct weft_error err = {0};
    uint32_t n = r->settings.parallel.pp * r->settings.parallel.dp;
    if (weft_comm_run_threads(n, run_rank, r, &err) != WEFT_OK)
        fail_msg("%s: %s", r->name, err.msg);
    wf_settings_release(wf_train_setting_list(), &r->settings);
}

/* Activations and state have about the same size. */
static void set_model(struct wf_train_settings *s, const char *arch)
{
    static const char *const keys[][2] = {
        {"model.layers", "4"},     {"model.dim", "128"},    {"model.heads", "4"},
        {"model.ffn", "512"},      {"model.vocab", "1024"}, {"model.ctx", "96"},
        {"data.seq", "96"},        {"data.batch", "16"},    {"parallel.micros", "8"},
        {"parallel.threads", "1"}, {"train.timeout", "60"},
    };
    assert_int_equal(wf_settings_init(wf_train_setting_list(), s, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(keys); i++)
        run_set(s, keys[i][0], keys[i][1]);
    run_set(s, "model.arch", arch);
    run_set(s, "data.train", run_path("gpt2-tiny", "tokens.bin"));
}

/* -- the matrix ---------------------------------------------------------------------------- */

static const struct layout {
    const char *pp, *dp, *schedule, *chunks;
} layouts[] = {
    {"1", "1", "1f1b", "auto"},          {"2", "1", "1f1b", "auto"},
    {"4", "1", "1f1b", "auto"},          {"2", "2", "1f1b", "auto"},
    {"1", "2", "1f1b", "auto"},          {"2", "1", "gpipe", "auto"},
    {"1", "1", "gpipe", "auto"},         {"2", "2", "gpipe", "auto"},
    {"2", "1", "zb-h1", "auto"},         {"2", "2", "zb-h1", "auto"},
    {"4", "1", "zb-h2", "auto"},         {"2", "1", "zb-v", "auto"},
    {"2", "1", "interleaved-1f1b", "2"}, {"2", "2", "interleaved-1f1b", "2"},
    {"2", "1", "dualpipe", "auto"},      {"2", "1", "v-half", "auto"},
};
static const char *const recomputes[] = {"none", "attention", "full", "full:0-1,attention:3"};
static const char *const precisions[] = {"fp32", "bf16"};
static const char *const archs[] = {"gpt2", "llama"};

static void run_cell(const struct layout *l, const char *recompute, const char *precision,
                     const char *arch, bool copies, bool blocks, bool step)
{
    char name[200];
    struct memory_run r = {.name = name, .copies = copies, .step = step};
    snprintf(name, sizeof name, "%s%s, pp %s, dp %s, %s, %s, %s, %s", arch,
             blocks ? " with blocks" : "", l->pp, l->dp, l->schedule, recompute, precision,
             copies ? "copies" : "references");
    set_model(&r.settings, arch);
    run_set(&r.settings, "parallel.pp", l->pp);
    run_set(&r.settings, "parallel.dp", l->dp);
    run_set(&r.settings, "parallel.schedule", l->schedule);
    run_set(&r.settings, "parallel.chunks", l->chunks);
    run_set(&r.settings, "train.recompute", recompute);
    run_set(&r.settings, "train.precision", precision);
    if (blocks)
        run_set(&r.settings, "model.residual_block_layers", "2");
    run_all(&r);
}

/* Tries every combination of recomputation, layout, precision and transport.  The quick test
 * tries every seventh one: 7 is prime to the number of values of each dimension, so that each
 * pair of values occurs. */
static void check_matrix(void **state)
{
    (void)state;
    if (!LIVE_BYTES_WORK)
        skip();
    size_t at = 0;
    for (size_t l = 0; l < WEFT_LEN(layouts); l++)
        for (size_t r = 0; r < WEFT_LEN(recomputes); r++)
            for (size_t p = 0; p < WEFT_LEN(precisions); p++)
                for (size_t a = 0; a < WEFT_LEN(archs); a++)
                    for (int copies = 0; copies < 2; copies++, at++)
                        if (test_is_deep() || at % 7 == 0)
                            run_cell(&layouts[l], recomputes[r], precisions[p], archs[a],
                                     copies != 0, false, at % 35 == 0);
}

static void check_blocks(void **state)
{
    (void)state;
    if (!LIVE_BYTES_WORK)
        skip();
    for (size_t l = 0; l < WEFT_LEN(layouts); l++)
        if (test_is_deep() || l % 4 == 1)
            for (int copies = 0; copies < 2; copies++)
                run_cell(&layouts[l], recomputes[l % 4], "fp32", "llama", copies != 0, true,
                         false);
}

/* -- the parts of the state ---------------------------------------------------------------- */

static void compare_part(const char *what, size_t planned, size_t allocated)
{
    double ratio = (double)planned / (double)allocated;
    if (ratio < MIN_RATIO || ratio > 1.02)
        fail_msg("%s: %zu bytes allocated, the items have %zu", what, allocated, planned);
}

/* Each part of the state in struct weft_state_bytes is what a run allocates.  Packed copies are
 * padded to whole panels. */
static void check_state(void **state)
{
    (void)state;
    for (size_t k = 0; k < WEFT_LEN(archs) * WEFT_LEN(precisions); k++) {
        struct wf_train_settings s;
        struct weft_items items;
        const char *precision = precisions[k / 2];
        set_model(&s, archs[k % 2]);
        run_set(&s, "model.dim", "384");
        run_set(&s, "model.ffn", "1536");
        run_set(&s, "train.precision", precision);
        struct wf_trainer *t = run_trainer(&s);
        struct wf_trainer_info info = wf_trainer_info(t);
        const struct wf_rank_bytes *run = &info.bytes;
        const struct weft_training how = {.bf16 = strcmp(precision, "bf16") == 0,
                                          .bf16_packed = wf_pack_form(WF_DTYPE_BF16) ==
                                                         WF_PACK_BF16_PAIRS};
        assert_int_equal(weft_items_init_training(&items, &info.model, 2, 96, &how, NULL),
                         WEFT_OK);
        struct weft_state_bytes sum = {0};
        for (size_t i = 0; i < items.n; i++) {
            sum.weights += items.at[i].state.weights;
            sum.gradients += items.at[i].state.gradients;
            sum.packed += items.at[i].state.packed;
            sum.moments += items.at[i].state.moments;
        }
        compare_part("weights", sum.weights - items.shared.weights, run->weights);
        compare_part("gradients", sum.gradients - items.shared.gradients, run->gradients);
        compare_part("packed copies", sum.packed, run->packed);
        compare_part("moments", sum.moments - items.shared.moments, run->moments);
        weft_items_release(&items);
        wf_trainer_free(t);
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

/* -- files, samples, threads --------------------------------------------------------------- */

static struct extra_case {
    const char *name, *settings[6][2];
    bool save;
    uint32_t sample_tokens;
} extras[] = {
    {"a snapshot", {{"checkpoint.every", "1"}, {"parallel.pp", "2"}}, false, 0},
    {"no snapshot",
     {{"checkpoint.every", "1"}, {"checkpoint.async", "false"}, {"parallel.pp", "2"}},
     false,
     0},
    {"a sample", {{"log.sample", "1"}, {"log.sample_tokens", "40"}}, false, 40},
    {"a sample on two ranks",
     {{"log.sample", "1"}, {"log.sample_tokens", "40"}, {"parallel.dp", "2"}},
     false,
     40},
    {"saving", {{"parallel.pp", "2"}, {"model.vocab", "8192"}}, true, 0},
    {"fast sums", {{"train.reduction", "fast"}, {"parallel.dp", "2"}}, false, 0},
    {"threads", {{"parallel.threads", "3"}, {"parallel.pp", "2"}}, false, 0},
    {"a remainder", {{"data.batch", "15"}, {"parallel.pp", "2"}}, false, 0},
    {"tied weights",
     {{"model.tied", "true"}, {"parallel.pp", "2"}, {"model.vocab", "8192"}},
     false,
     0},
};

static void check_extra(void **state)
{
    const struct extra_case *c = *state;
    if (!LIVE_BYTES_WORK)
        skip();
    struct folder folder = folder_new();
    struct memory_run r = {.name = c->name, .step = true, .sample_tokens = c->sample_tokens};
    char weights[100];
    snprintf(weights, sizeof weights, "%s/weights", folder.path);
    r.save = c->save ? weights : NULL;
    set_model(&r.settings, "gpt2");
    run_set(&r.settings, "log.dir", folder.path);
    for (size_t i = 0; i < WEFT_LEN(c->settings) && c->settings[i][0] != NULL; i++)
        run_set(&r.settings, c->settings[i][0], c->settings[i][1]);
    run_all(&r);
    folder_remove_path(folder.path);
}

/* -- the memory of the process ------------------------------------------------------------- */

/* Returns the resident bytes of this process. */
static size_t resident(void)
{
    unsigned long size, pages;
    FILE *in = fopen("/proc/self/statm", "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%lu %lu", &size, &pages), 2);
    fclose(in);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The system counts whole pages, huge ones for large blocks, so a larger model is compared. */
static void check_resident(void **state)
{
    (void)state;
    if (!LIVE_BYTES_WORK)
        skip();

    static const char *const kinds[] = {"none", "full"};
    for (size_t i = 0; i < WEFT_LEN(kinds); i++) {
        struct wf_train_settings s;
        struct wf_step_result result;
        struct weft_error err = {0};

        set_model(&s, "gpt2");
        run_set(&s, "model.dim", "384");
        run_set(&s, "model.ffn", "1536");
        run_set(&s, "data.batch", "8");
        run_set(&s, "parallel.schedule", "gpipe");
        run_set(&s, "train.recompute", kinds[i]);

        size_t before = resident();
        struct wf_trainer *t = run_trainer(&s);
        assert_int_equal(wf_trainer_step(t, &result, &err), WEFT_OK);
        double ratio = (double)wf_trainer_info(t).planned_bytes / (double)(resident() - before);
        if (ratio < 0.95 || ratio > MAX_RATIO)
            fail_msg("%s: the plan is %.3f of the resident memory", kinds[i], ratio);

        wf_trainer_free(t);
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(extras) + 4];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_resident);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_state);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_matrix);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_blocks);
    for (size_t i = 0; i < WEFT_LEN(extras); i++)
        tests[n++] = (struct CMUnitTest){extras[i].name, check_extra, NULL, NULL, &extras[i]};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL) != 0;
}
