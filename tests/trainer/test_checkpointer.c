/* Checks the checkpointer without a trainer: ranks write shards of one parameter, and the
 * stored values are compared with a formula. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "ckpt/folder.h"
#include "training/ckpt/store.h"
#include "training/trainer/checkpoint.h"

enum { ROWS = 12, COLS = 10, N = ROWS * COLS };

/* A run of several ranks; each owns the elements [cuts[rank], cuts[rank + 1]). */
struct job {
    struct folder folder;
    char root[128];
    uint32_t n_ranks;
    const uint64_t *cuts;
    bool background;
    uint64_t steps;
    bool save_at_end;
    enum weft_status want_save;
};

/* The values of one rank. */
struct shard {
    float value[N], m[N], v[N];
};

static float expected(uint64_t step, enum wf_store_field field, uint64_t i)
{
    return (float)(step * 1000 + i * 4 + field);
}

static void fill(struct shard *s, uint64_t step, uint64_t begin, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        s->value[i] = expected(step, WF_STORE_FIELD_VALUE, begin + i);
        s->m[i] = expected(step, WF_STORE_FIELD_M, begin + i);
        s->v[i] = expected(step, WF_STORE_FIELD_V, begin + i);
    }
}

static struct wf_checkpointer_setup setup_of(const struct job *job, struct weft_comm *comm,
                                             const struct wf_checkpoint_tensor *tensor)
{
    return (struct wf_checkpointer_setup){.comm = comm,
                                          .root = job->root,
                                          .config = "settings",
                                          .model = "{}",
                                          .tensors = tensor,
                                          .n_tensors = tensor->n > 0,
                                          .every = 2,
                                          .keep = 2,
                                          .background = job->background};
}

static void job_init(struct job *job)
{
    folder_make(&job->folder);
    snprintf(job->root, sizeof job->root, "%s/checkpoints", job->folder.at);
}

/* Compares all fields of one checkpoint with the formula. */
static void check_stored(const struct job *job, uint64_t step)
{
    static const uint64_t shape[2] = {ROWS, COLS};
    char path[200];
    struct wf_ckpt *ckpt = NULL;
    struct weft_error err = {0};
    snprintf(path, sizeof path, "%s/step-%08u", job->root, (unsigned)step);
    if (wf_ckpt_open(path, true, &ckpt, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(wf_ckpt_step(ckpt), step);
    assert_string_equal(wf_ckpt_config(ckpt), "settings");
    assert_memory_equal(wf_ckpt_find(ckpt, "w")->shape, shape, sizeof shape);
    for (unsigned f = 0; f < WF_STORE_N_FIELDS; f++) {
        float stored[N];
        enum weft_status st =
            wf_ckpt_read(ckpt, "w", (enum wf_store_field)f, 0, N, stored, NULL);
        assert_int_equal(st, WEFT_OK);
        for (uint64_t i = 0; i < N; i++)
            assert_true(stored[i] == expected(step, (enum wf_store_field)f, i));
    }
    wf_ckpt_free(ckpt);
}

static enum weft_status run_steps(struct job *job, struct weft_comm *comm,
                                  struct weft_error *err)
{
    uint32_t rank = comm == NULL ? 0 : weft_comm_rank(comm);
    struct shard s;
    struct wf_checkpoint_tensor tensor = {.name = "w",
                                          .n_dims = 2,
                                          .shape = {ROWS, COLS},
                                          .begin = job->cuts[rank],
                                          .n = job->cuts[rank + 1] - job->cuts[rank],
                                          .value = s.value,
                                          .m = s.m,
                                          .v = s.v};

    struct wf_checkpointer_setup setup = setup_of(job, comm, &tensor);
    struct wf_checkpointer *c = NULL;
    WEFT_TRY(wf_checkpointer_new(&setup, &c, err));
    enum weft_status st = WEFT_OK;

    for (uint64_t step = 1; st == WEFT_OK && step <= job->steps; step++) {
        fill(&s, step, tensor.begin, tensor.n);
        st = wf_checkpointer_after_step(c, step, err);
    }

    if (st == WEFT_OK && job->save_at_end) {
        struct weft_error cause = {0};
        if (wf_checkpointer_save(c, job->steps, &cause) != job->want_save)
            st = WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: save: %.200s", rank, cause.msg);
    }

    wf_checkpointer_free(c);
    return st;
}

static enum weft_status rank_main(struct weft_comm *comm, void *job, struct weft_error *err)
{
    return run_steps(job, comm, err);
}

static void run_job(struct job *job)
{
    struct weft_error err = {0};
    enum weft_status st = job->n_ranks == 1
                              ? run_steps(job, NULL, &err)
                              : weft_comm_run_threads(job->n_ranks, rank_main, job, &err);
    if (st != WEFT_OK)
        fail_msg("%s", err.msg);
}

static const uint64_t whole[] = {0, N};
static const uint64_t shards[] = {0, 40, 40, N}; /* rank 1 owns no elements */
static const uint64_t short_shards[] = {0, 40, 40, 80};

static void writes_every_second_step(void **state)
{
    (void)state;
    for (int several = 0; several < 2; several++) {
        struct job job = {
            .n_ranks = several ? 3 : 1, .cuts = several ? shards : whole, .steps = 7};
        job_init(&job);
        run_job(&job);
        assert_int_equal(folder_count(job.root), 2); /* keep: 4 and 6 */
        check_stored(&job, 4);
        check_stored(&job, 6);
        folder_remove(job.folder.at);
    }
}

static void saves_the_last_step_once(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++)
        for (uint64_t steps = 1; steps <= 2; steps++) {
            struct job job = {.n_ranks = 3,
                              .cuts = shards,
                              .background = background != 0,
                              .steps = steps,
                              .save_at_end = true};
            job_init(&job);
            run_job(&job);
            assert_int_equal(folder_count(job.root), 1);
            check_stored(&job, steps);
            folder_remove(job.folder.at);
        }
}

/* The values change right after the checkpoint was started. */
static void writes_a_snapshot_in_the_background(void **state)
{
    struct shard s;
    struct wf_checkpoint_tensor tensor = {
        .name = "w", .n_dims = 2, .shape = {ROWS, COLS}, .n = N};
    struct job job = {.n_ranks = 1, .background = true};
    struct wf_checkpointer *c = NULL;
    struct weft_error err = {0};
    (void)state;
    job_init(&job);
    tensor.value = s.value;
    tensor.m = s.m;
    tensor.v = s.v;
    struct wf_checkpointer_setup setup = setup_of(&job, NULL, &tensor);
    assert_int_equal(wf_checkpointer_new(&setup, &c, &err), WEFT_OK);

    fill(&s, 2, 0, N);
    assert_int_equal(wf_checkpointer_after_step(c, 2, &err), WEFT_OK);
    fill(&s, 3, 0, N);
    struct wf_checkpoint_result result = {0};
    while (result.saved == 0 && result.error[0] == '\0') {
        assert_int_equal(wf_checkpointer_after_step(c, 3, &err), WEFT_OK);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        result = wf_checkpointer_poll(c);
    }
    assert_string_equal(result.error, "");
    assert_int_equal(result.saved, 2);
    assert_int_equal(wf_checkpointer_poll(c).saved, 0);
    wf_checkpointer_free(c);
    check_stored(&job, 2);
    folder_remove(job.folder.at);
}

/* The shards do not cover the parameter, so the commit fails on rank 0. */
static void reports_a_failed_commit_on_all_ranks(void **state)
{
    struct job job = {.n_ranks = 3,
                      .cuts = short_shards,
                      .steps = 1,
                      .save_at_end = true,
                      .want_save = WEFT_IO};
    (void)state;
    job_init(&job);
    run_job(&job);
    assert_int_equal(folder_count(job.root), 0);
    folder_remove(job.folder.at);
}

/* The directory disappears during the run: the failure is reported, and a later checkpoint
 * succeeds. */
static void continues_after_a_write_failure(void **state)
{
    struct shard s;
    struct wf_checkpoint_tensor tensor = {
        .name = "w", .n_dims = 2, .shape = {ROWS, COLS}, .n = N};
    struct job job = {.n_ranks = 1};
    struct wf_checkpointer *c = NULL;
    struct weft_error err = {0};
    (void)state;
    job_init(&job);
    tensor.value = s.value;
    tensor.m = s.m;
    tensor.v = s.v;
    struct wf_checkpointer_setup setup = setup_of(&job, NULL, &tensor);
    assert_int_equal(wf_checkpointer_new(&setup, &c, &err), WEFT_OK);

    folder_remove(job.root);
    fill(&s, 2, 0, N);
    assert_int_equal(wf_checkpointer_after_step(c, 2, &err), WEFT_OK);
    assert_true(wf_checkpointer_poll(c).error[0] != '\0');

    assert_int_equal(mkdir(job.root, 0777), 0);
    fill(&s, 4, 0, N);
    assert_int_equal(wf_checkpointer_after_step(c, 4, &err), WEFT_OK);
    struct wf_checkpoint_result result = wf_checkpointer_poll(c);
    assert_string_equal(result.error, "");
    assert_int_equal(result.saved, 4);
    wf_checkpointer_free(c);
    check_stored(&job, 4);
    folder_remove(job.folder.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_every_second_step),
        cmocka_unit_test(saves_the_last_step_once),
        cmocka_unit_test(writes_a_snapshot_in_the_background),
        cmocka_unit_test(reports_a_failed_commit_on_all_ranks),
        cmocka_unit_test(continues_after_a_write_failure),
    };
    return cmocka_run_group_tests_name("checkpointer", tests, NULL, NULL) != 0;
}
