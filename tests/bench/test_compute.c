/* Checks that the compute benchmarks return complete figures and leave no files.  The speed of
 * the machine is not checked. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "bench/bench.h"
#include "folder.h"

static struct wf_bench_params tiny(void)
{
    return (struct wf_bench_params){.spec = "d1",
                                    .precision = "fp32",
                                    .schedule = "1f1b",
                                    .dir = ".",
                                    .batch = 2,
                                    .seq = 8,
                                    .micros = 2,
                                    .threads = 1,
                                    .ranks = 2,
                                    .repeat = 1,
                                    .steps = 2};
}

static void check_train(void **state)
{
    struct wf_bench_params p = tiny();
    struct wf_bench_train f;
    assert_int_equal(wf_bench_train(&p, &f, NULL), WEFT_OK);
    assert_int_equal(f.threads, 1);
    const struct wf_bench_train_mode *both[] = {&f.exact, &f.fast};
    for (int i = 0; i < 2; i++) {
        double sum = 0;
        assert_true(fabs(both[i]->tok_s * both[i]->seconds - 2 * 8) < 1e-6);
        assert_true(both[i]->share > 0 && both[i]->peak > 0 && both[i]->loss > 0);
        for (size_t k = 0; k < WF_BENCH_N_TIMES; k++)
            sum += both[i]->times[k];
        assert_true(sum > 0 && sum < 1.001);
    }
    p.micros = 3;
    assert_int_equal(wf_bench_train(&p, &f, NULL), WEFT_USAGE);
    p.spec = "nothing";
    assert_int_equal(wf_bench_train(&p, &f, NULL), WEFT_USAGE);
    (void)state;
}

static void count_kernel(void *ctx, const struct wf_bench_kernel *k)
{
    int *n = ctx;
    assert_true(k->seconds > 0 && k->rate > 0);
    assert_true((k->flops > 0) != (k->bytes > 0));
    assert_true((k->share > 0) == (k->flops > 0));
    (*n)++;
}

static void check_kernels(void **state)
{
    const struct wf_bench_params p = tiny();
    int n = 0;
    assert_int_equal(wf_bench_kernels(&p, count_kernel, &n, NULL), WEFT_OK);
    /* Five matrices with three products each, attention in two directions, six row kernels, six
     * sums. */
    assert_int_equal(n, 5 * 3 + 2 + 6 + 6);
    (void)state;
}

static bool fake_launch(const struct wf_bench_params *p, struct wf_bench_mpi *out)
{
    if (strcmp(out->launcher, "mpich") == 0)
        return false;
    out->pipeline = (struct wf_bench_layout){.tok_s = 100.0 * p->ranks, .bubble_sim = 0.5};
    return true;
}

static void check_pipeline(void **state)
{
    struct wf_bench_params p = tiny();
    struct wf_bench_pipeline f;
    p.spec = "d2";
    assert_int_equal(wf_bench_pipeline(&p, fake_launch, &f, NULL), WEFT_OK);
    assert_true(f.small.seconds > 0 && f.large.seconds > 0);
    assert_true(f.one.tok_s > 0 && f.pipeline.tok_s > 0 && f.replicas.tok_s > 0);
    assert_true(f.one.eval_tok_s > 0 && f.pipeline.eval_tok_s > 0);
    assert_true(f.one.share == 1 && f.pipeline.bubble_sim > 0);
    assert_true(fabs(f.replicas.share - f.replicas.tok_s / f.one.tok_s) < 1e-9);
    assert_true(f.mpi[0].ran && !f.mpi[1].ran);
    assert_true(fabs(f.mpi[0].pipeline.share - 200 / (f.one.tok_s * 0.5)) < 1e-9);
    assert_string_equal(f.mpi[1].launcher, "mpich");
    (void)state;
}

static void check_checkpoint(void **state)
{
    struct folder dir = folder_new();
    struct wf_bench_params p = tiny();
    struct wf_bench_checkpoint f;
    p.dir = dir.path;
    p.repeat = 2;
    assert_int_equal(wf_bench_checkpoint(&p, &f, NULL), WEFT_OK);
    assert_int_equal(f.repeat, 2);
    assert_true(f.without_s > 0 && f.with_s > 0 && f.checkpoint_s > 0);
    assert_true(f.disk.bytes > 0 && f.disk.save > 0 && f.disk.check > 0 && f.disk.load > 0);
    assert_true(f.disk.save_share == f.disk.save / f.disk.save_plain);
    assert_int_equal(f.stall_reached, f.stall <= 0.05);
    assert_int_equal(f.disk.save_reached, f.disk.save_share >= 0.7);
    assert_int_equal(f.disk.load_reached, f.disk.load_share >= 0.7);
    assert_int_equal(folder_count(&dir), 0);
    folder_remove(&dir);
    (void)state;
}

static void check_generate(void **state)
{
    struct wf_bench_params p = tiny();
    struct wf_bench_generate f;
    assert_int_equal(wf_bench_generate(&p, &f, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(f.types); i++) {
        assert_true(f.types[i].tok_s > 0 && f.types[i].share > 0);
        assert_int_equal(f.types[i].reached, f.types[i].share >= 0.6);
    }
    (void)state;
}

/* The defaults are those that docs and --help state. */
static void check_defaults(void **state)
{
    struct wf_bench_params p = wf_bench_defaults("train");
    assert_string_equal(p.spec, "gpt2-124m");
    assert_true(p.batch == 4 && p.seq == 256 && p.micros == 1 && p.repeat == 5);
    assert_true(p.threads == 0 && p.steps == 10 && p.ranks == 2);
    p = wf_bench_defaults("pipeline");
    assert_true(p.batch == 1 && p.seq == 256 && p.micros == 16 && p.repeat == 2);
    p = wf_bench_defaults("checkpoint");
    assert_true(p.batch == 4 && p.micros == 1 && p.repeat == 3);
    (void)state;
}

static int n_questions;

static bool stop_after_three(void)
{
    return ++n_questions > 3;
}

static void check_stop(void **state)
{
    struct folder dir = folder_new();
    struct wf_bench_params p = tiny();
    struct wf_bench_checkpoint f;
    p.dir = dir.path;
    p.is_stopped = stop_after_three;
    assert_int_equal(wf_bench_checkpoint(&p, &f, NULL), WEFT_USAGE);
    assert_int_equal(n_questions, 4);
    assert_int_equal(folder_count(&dir), 0);
    p.dir = folder_in(&dir, "missing");
    assert_int_equal(wf_bench_checkpoint(&p, &f, NULL), WEFT_IO);
    folder_remove(&dir);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_train),    cmocka_unit_test(check_kernels),
        cmocka_unit_test(check_pipeline), cmocka_unit_test(check_checkpoint),
        cmocka_unit_test(check_stop),     cmocka_unit_test(check_generate),
        cmocka_unit_test(check_defaults),
    };
    return cmocka_run_group_tests_name("compute", tests, NULL, NULL) != 0;
}
