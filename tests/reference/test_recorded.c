/* Compares the functions of weft/reference.h with recordings of the systems: values bit by bit
 * and error messages word for word. */
#include "records.h"
#include "weft/reference.h"

/* -- burn_dragon --------------------------------------------------------------------------- */

static void check_plan_errors(void **state)
{
    struct records r;
    int n = 0;
    (void)state;
    for (records_open(&r, "reference_plan_errors.txt"); records_next(&r); n++) {
        struct weft_reference_plan p = {.enabled = records_number(&r, 1) != 0,
                                        .interleaved = r.l.fields[0][0] == 'i',
                                        .n_layer = records_number(&r, 2),
                                        .stage_count = records_number(&r, 3),
                                        .virtual_stages_per_rank = records_number(&r, 4),
                                        .microbatches = records_number(&r, 5)};
        struct weft_error err = {0};
        enum weft_status st = weft_reference_plan_check(&p, &err);
        if (st != WEFT_USAGE || strcmp(err.msg, r.texts[0]) != 0)
            fail_line(&r.l, "status %d: %s", (int)st, err.msg);
    }
    assert_int_equal(n, 106);
}

/* Every plan that the system makes passes the check of its settings. */
static void check_plans_pass(void **state)
{
    struct records r;
    int n = 0;
    (void)state;
    for (records_open(&r, "golden_plans.txt"); records_next(&r); n++) {
        struct weft_reference_plan p = {.enabled = true,
                                        .interleaved =
                                            strcmp(r.l.fields[0], "greedy-1f1b") == 0,
                                        .n_layer = records_number(&r, 4),
                                        .stage_count = records_number(&r, 1),
                                        .virtual_stages_per_rank = records_number(&r, 2),
                                        .microbatches = records_number(&r, 3)};
        struct weft_error err = {0};
        if (weft_reference_plan_check(&p, &err) != WEFT_OK)
            fail_line(&r.l, "%s", err.msg);
    }
    assert_int_equal(n, 396);
}

static float gradient_1(void *arg, uint32_t layer, uint32_t micro)
{
    (void)arg;
    return (float)layer + 0.25F * (float)micro;
}

static float gradient_2(void *arg, uint32_t layer, uint32_t micro)
{
    (void)arg;
    return (float)((31 * layer + 17 * micro) % 97) / 97.0F - 0.5F;
}

static void expect_bits(const struct records *r, int field, float got)
{
    uint32_t bits;
    memcpy(&bits, &got, sizeof bits);
    if (bits != records_number(r, field))
        fail_line(&r->l, "field %d: %.9g", field, (double)got);
}

static void check_merge(void **state)
{
    struct records r;
    int n = 0;
    (void)state;

    for (records_open(&r, "reference_merge.txt"); records_next(&r); n++) {
        struct weft_gen_params params = {.ranks = lines_count(&r.l, 1),
                                         .chunks = lines_count(&r.l, 2),
                                         .micros = lines_count(&r.l, 3)};
        struct weft_schedule *s = NULL;
        struct weft_partition p;
        struct weft_reference_merge got;
        float of_ranks[8];

        assert_int_equal(weft_schedule_generate("greedy-1f1b", &params, &s, NULL), WEFT_OK);
        assert_int_equal(weft_partition_init_even(&p, lines_count(&r.l, 0),
                                                  params.ranks * params.chunks, NULL),
                         WEFT_OK);
        assert_int_equal(weft_reference_merge_gradients(
                             s, &p, r.l.fields[4][1] == '1' ? gradient_1 : gradient_2, NULL, 1,
                             0.1F, of_ranks, &got, NULL),
                         WEFT_OK);

        expect_bits(&r, 5, got.reference_gradient);
        expect_bits(&r, 6, got.merged_gradient);
        expect_bits(&r, 7, got.updated_weight);

        char *rest = r.texts[0];
        for (uint32_t k = 0; k < params.ranks; k++)
            if (of_ranks[k] != strtof(rest, &rest))
                fail_line(&r.l, "stage %u: %.9g", k, (double)of_ranks[k]);

        weft_partition_release(&p);
        weft_schedule_free(s);
    }

    assert_int_equal(n, 8);
}

static void check_merge_refused(void **state)
{
    struct weft_gen_params params = {.ranks = 2, .micros = 4};
    struct weft_schedule *s = NULL;
    struct weft_partition p;
    struct weft_reference_merge got = {1, 2, 3};
    struct weft_error err;
    float of_ranks[2] = {7, 7};

    (void)state;
    assert_int_equal(weft_partition_init_even(&p, 6, 3, NULL), WEFT_OK);
    assert_int_equal(weft_schedule_generate("1f1b", &params, &s, NULL), WEFT_OK);

    assert_int_equal(
        weft_reference_merge_gradients(s, &p, gradient_1, NULL, 1, 1, of_ranks, &got, &err),
        WEFT_USAGE);
    assert_string_equal(err.msg, "the partition has 3 stages (expected 2, as the schedule)");
    weft_schedule_free(s);

    assert_int_equal(weft_schedule_generate("chimera", &params, &s, NULL), WEFT_OK);
    assert_int_equal(
        weft_reference_merge_gradients(s, &p, gradient_1, NULL, 1, 1, of_ranks, &got, &err),
        WEFT_USAGE);
    assert_string_equal(err.msg,
                        "the schedule has 2 pipes (expected 1, as in the reference system)");

    assert_true(got.reference_gradient == 1 && of_ranks[0] == 7);
    weft_schedule_free(s);
    weft_partition_release(&p);
}

/* Prints the place of a rank in the form of the recordings. */
static void print_rank(const struct weft_reference_runtime *rt, size_t rank, char *out,
                       size_t size)
{
    struct weft_reference_rank at;
    assert_int_equal(weft_reference_layout_rank(rt, rank, &at, NULL), WEFT_OK);
    int n = snprintf(out, size, "%s%zu,%zu,", rank > 0 ? " " : "", at.stage, at.replica);
    const size_t neighbours[] = {at.predecessor, at.successor};
    for (int i = 0; i < 2; i++)
        n += neighbours[i] == WEFT_REFERENCE_NO_RANK
                 ? snprintf(out + n, size - (size_t)n, "-,")
                 : snprintf(out + n, size - (size_t)n, "%zu,", neighbours[i]);
    for (size_t i = 0; i < rt->stage_count; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%zu", i > 0 ? "+" : "",
                      at.pipeline_first + i);
    for (size_t i = 0; i < rt->dp_size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%zu", i > 0 ? "+" : ",",
                      at.stage + i * rt->stage_count);
}

static void expect_runtime(const struct records *r, const struct weft_reference_runtime *rt)
{
    char text[2000], *at = text;
    weft_reference_runtime_print(rt, text, sizeof text);
    if (strcmp(text, r->texts[0]) != 0)
        fail_line(&r->l, "%s", text);
    if (strcmp(r->texts[1], "-") == 0) {
        struct weft_reference_rank place;
        weft_reference_layout_print(rt, text, sizeof text);
        assert_string_equal(text, "");
        assert_int_equal(weft_reference_layout_rank(rt, 0, &place, NULL), WEFT_USAGE);
        return;
    }
    weft_reference_layout_print(rt, text, sizeof text);
    if (strcmp(text, r->texts[1]) != 0)
        fail_line(&r->l, "%s", text);
    for (size_t k = 0; k < rt->world_size; k++, at += strlen(at))
        print_rank(rt, k, at, sizeof text - (size_t)(at - text));
    if (strcmp(text, r->texts[2]) != 0)
        fail_line(&r->l, "%s", text);
}

static const char *variable(const struct records *r, int field)
{
    return strcmp(r->l.fields[field], "-") == 0 ? NULL : r->l.fields[field];
}

static void check_runtime(void **state)
{
    struct records r;
    int n_ok = 0, n_errors = 0;
    (void)state;

    for (records_open(&r, "reference_runtime.txt"); records_next(&r);) {
        struct weft_reference_launch launch = {
            .mode = (enum weft_reference_mode)records_number(&r, 0),
            .world_size = records_number(&r, 1),
            .data_size = records_number(&r, 2),
            .pipeline_enabled = records_number(&r, 3) != 0,
            .stage_count = records_number(&r, 4),
            .virtual_stages_per_rank = records_number(&r, 5),
            .env_world_size = variable(&r, 6),
            .env_rank = variable(&r, 7),
            .env_local_rank = variable(&r, 8)};

        struct weft_reference_runtime rt;
        struct weft_error err = {0};
        enum weft_status st = weft_reference_runtime_resolve(&launch, &rt, &err);
        if (strncmp(r.texts[0], "err ", 4) == 0) {
            n_errors++;
            if (st != WEFT_USAGE || strcmp(err.msg, r.texts[0] + 4) != 0)
                fail_line(&r.l, "status %d: %s", (int)st, err.msg);
        } else {
            n_ok++;
            if (st != WEFT_OK)
                fail_line(&r.l, "%s", err.msg);
            expect_runtime(&r, &rt);
        }
    }

    assert_int_equal(n_ok, 35);
    assert_int_equal(n_errors, 74);
}

/* Checks rules that the recordings do not cover, from the system's own description. */
static void check_runtime_rules(void **state)
{
    struct weft_reference_launch l = {.mode = WEFT_REFERENCE_DDP,
                                      .world_size = 6,
                                      .data_size = 2,
                                      .pipeline_enabled = true,
                                      .stage_count = 3,
                                      .virtual_stages_per_rank = 1,
                                      .env_world_size = "6",
                                      .env_rank = "+5"};
    struct weft_reference_runtime rt;
    struct weft_reference_rank place;
    struct weft_error err;

    (void)state;
    assert_int_equal(weft_reference_runtime_resolve(&l, &rt, &err), WEFT_USAGE);
    assert_string_equal(err.msg, "parallel.mode=ddp process-group launch requires LOCAL_RANK");

    l.env_local_rank = "x1"; /* not a number: not set */
    assert_int_equal(weft_reference_runtime_resolve(&l, &rt, &err), WEFT_USAGE);
    l.env_local_rank = "1";
    assert_int_equal(weft_reference_runtime_resolve(&l, &rt, &err), WEFT_OK);
    assert_int_equal(rt.global_rank, 5);

    assert_int_equal(weft_reference_layout_rank(&rt, 6, &place, &err), WEFT_USAGE);
    assert_string_equal(err.msg, "rank 6 is out of range (expected 0 to 5)");

    l.data_size = 3;
    assert_int_equal(weft_reference_runtime_resolve(&l, &rt, &err), WEFT_USAGE);
    assert_string_equal(err.msg, "pipeline layout requires runtime.world_size = "
                                 "parallel.pipeline.stage_count * parallel.data.size (got 6 != "
                                 "3 * 3)");
}

/* -- entrenar ------------------------------------------------------------------------------ */

static void expect_double(const struct records *r, int field, double got)
{
    uint64_t bits;
    memcpy(&bits, &got, sizeof bits);
    if (bits != strtoull(r->l.fields[field], NULL, 16))
        fail_line(&r->l, "field %d: %.17g", field, got);
}

/* Compares the metrics of the 1F1B schedule of the same size with the recorded values. */
static void expect_metrics(const struct records *r)
{
    struct weft_gen_params params = {.ranks = lines_count(&r->l, 1),
                                     .micros = lines_count(&r->l, 3)};
    struct weft_schedule *s = NULL;
    struct weft_metrics m;
    assert_int_equal(weft_schedule_generate("1f1b", &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, NULL, NULL, NULL), WEFT_OK);
    expect_double(r, 8, m.bubble_ratio);
    expect_double(r, 9, m.efficiency);
    weft_metrics_release(&m);
    weft_schedule_free(s);
}

static void check_stages(void **state)
{
    struct records r;
    int n_ok = 0, n_beyond = 0, n_errors = 0;
    (void)state;

    for (records_open(&r, "reference_stages.txt"); records_next(&r);) {
        struct weft_reference_stage got;
        struct weft_error err = {0};
        enum weft_status st =
            weft_reference_stage_init(&got, records_number(&r, 0), records_number(&r, 1),
                                      records_number(&r, 2), records_number(&r, 3), &err);

        if (strcmp(r.l.fields[4], "beyond") == 0) {
            n_beyond++;
            if (st != WEFT_USAGE || strstr(err.msg, "is out of range") == NULL)
                fail_line(&r.l, "status %d: %s", (int)st, err.msg);
        } else if (strcmp(r.l.fields[4], "err") == 0) {
            n_errors++;
            if (st != WEFT_USAGE ||
                strstr(err.msg, r.n_texts > 0 ? r.texts[0] : "0 stages") == NULL)
                fail_line(&r.l, "status %d: %s", (int)st, err.msg);
        } else {
            n_ok++;
            if (st != WEFT_OK || got.block_start != records_number(&r, 4) ||
                got.block_end != records_number(&r, 5) ||
                got.has_embedding != records_number(&r, 6) ||
                got.has_lm_head != records_number(&r, 7))
                fail_line(&r.l, "%zu..%zu: %s", got.block_start, got.block_end, err.msg);
            expect_double(&r, 8, got.bubble_fraction);
            expect_double(&r, 9, got.efficiency);
            expect_metrics(&r);
        }
    }

    assert_int_equal(n_ok, 421);
    assert_int_equal(n_beyond, 8);
    assert_int_equal(n_errors, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_plan_errors), cmocka_unit_test(check_plans_pass),
        cmocka_unit_test(check_merge),       cmocka_unit_test(check_merge_refused),
        cmocka_unit_test(check_runtime),     cmocka_unit_test(check_runtime_rules),
        cmocka_unit_test(check_stages),
    };
    return cmocka_run_group_tests_name("recorded", tests, NULL, NULL) != 0;
}
