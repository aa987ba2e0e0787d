/* Writes plan.json from two ranks and reads it back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../trainer/runs.h"
#include "base/error.h"
#include "folder.h"
#include "training/run/rundir_plan.h"
#include "training/trainer/load.h"

struct job {
    struct folder folder;
    struct wf_topology topology;
};

static enum weft_status write_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct job *job = arg;
    uint32_t rank = weft_comm_rank(comm);
    const struct wf_rundir_plan plan = {.topology = &job->topology,
                                        .schedule = "1f1b",
                                        .n_params = 122400,
                                        .bubble_plan = 0.25,
                                        .planned_bytes = 10 + rank,
                                        .bytes = {.weights = 20 + rank, .total = 30 + rank}};
    return wf_rundir_write_plan(job->folder.path, comm, &plan, err);
}

static void check_two_ranks(void **state)
{
    struct job job = {.folder = folder_new()};
    struct wf_train_settings s;
    struct weft_model model;
    struct wf_planfile file;
    (void)state;
    run_settings(&s, "gpt2-tiny");
    run_set(&s, "parallel.pp", "2");
    assert_int_equal(wf_load_run_model(&s, &model, NULL), WEFT_OK);
    assert_int_equal(wf_topology_init(&job.topology, &s, &model, NULL), WEFT_OK);
    assert_int_equal(weft_comm_run_threads(2, write_rank, &job, NULL), WEFT_OK);
    assert_int_equal(wf_planfile_read(folder_in(&job.folder, "plan.json"), &file, NULL),
                     WEFT_OK);

    assert_string_equal(file.schedule, "1f1b");
    assert_int_equal(file.pp, 2);
    assert_int_equal(file.n_stages, 2);
    assert_int_equal(file.stages[0].first_layer, 0);
    assert_int_equal(file.stages[0].n_layers + file.stages[1].n_layers, model.layers);
    assert_true(file.stages[0].embedding && file.stages[1].head);
    assert_int_equal(file.n_ranks, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(file.stages[r].n_ranks, 1);
        assert_int_equal(file.stages[r].ranks[0], r);
        assert_int_equal(file.ranks[r].n_stages, 1);
        assert_int_equal(file.ranks[r].stages[0], r);
        assert_int_equal(file.ranks[r].planned_bytes, 10 + r);
        assert_int_equal(file.ranks[r].bytes.weights, 20 + r);
        assert_int_equal(file.ranks[r].bytes.total, 30 + r);
    }

    /* Activations of 4 bytes per element go forward for each micro-batch. */
    uint64_t elements = (uint64_t)s.data.batch * s.data.seq * model.dim;
    assert_true(file.n_links >= 1);
    assert_int_equal(file.links[0].from, 0);
    assert_int_equal(file.links[0].to, 1);
    assert_int_equal(file.links[0].forward_bytes, 4 * elements);

    wf_planfile_release(&file);
    wf_topology_release(&job.topology);
    wf_settings_release(wf_train_setting_list(), &s);
    folder_remove(&job.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_two_ranks)};
    return cmocka_run_group_tests_name("rundir plan", tests, NULL, NULL) != 0;
}
