/* Settings for Megatron-LM and torchtitan: which plans can be expressed, and the values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "planning/planner/export.h"
#include "planning/planner/plan.h"

/* Makes a plan of a schedule, with a layout or, if it is NULL, two layers per stage. */
static struct wf_plan make(const char *schedule, struct weft_gen_params params,
                           const char *layout)
{
    struct wf_plan p;
    struct weft_error err = {.msg = ""};
    struct wf_plan_input in = {.schedule = schedule, .params = params};
    if (layout != NULL)
        in.partition = (struct wf_partition_choice){WF_PARTITION_PATTERN, layout};
    else
        in.layers = 2 * params.ranks * (params.chunks == 0 ? 1 : params.chunks);
    if (wf_plan_init(&p, &in, &err) != WEFT_OK)
        fail_msg("%s: %s", schedule, err.msg);
    return p;
}

static void megatron_values(void **state)
{
    static const struct {
        const char *schedule;
        struct weft_gen_params params;
        const char *layout, *want_layout;
        uint32_t virtual_size, group, layers, mtp, per_stage;
    } cases[] = {
        {"1f1b", {.ranks = 4, .micros = 8}, NULL, "Ett|(tt|)*2,ttL", 1, 0, 8, 0, 2},
        {"1f1b", {.ranks = 4, .micros = 2}, "Et|t|t|L", "Et|(t|)*2,L", 1, 0, 3, 0, 0},
        {"1f1b", {.ranks = 3, .micros = 8}, "Ett|t|mL", NULL, 1, 0, 3, 1, 0},
        /* Without a group, and with as many micros as a multiple of the ranks, groups of P. */
        {"interleaved-1f1b",
         {.ranks = 4, .micros = 8, .chunks = 2},
         NULL,
         "Ett|(tt|)*6,ttL",
         2,
         4,
         16,
         0,
         2},
        {"interleaved-1f1b",
         {.ranks = 2, .micros = 12, .chunks = 2, .group = 6},
         NULL,
         "Ett|(tt|)*2,ttL",
         2,
         6,
         8,
         0,
         2},
        /* 7 micros in groups of 4: the last group has 3, at least one per rank. */
        {"interleaved-1f1b",
         {.ranks = 2, .micros = 7, .chunks = 3, .group = 4},
         NULL,
         "Ett|(tt|)*4,ttL",
         3,
         4,
         12,
         0,
         2},
        {"interleaved-1f1b",
         {.ranks = 16, .micros = 32, .chunks = 2},
         "Et*3|(tt|)*29,m|L",
         NULL,
         2,
         16,
         61,
         1,
         0},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_plan p = make(cases[i].schedule, cases[i].params, cases[i].layout);
        struct wf_megatron m;
        struct weft_error err = {.msg = ""};
        if (wf_megatron_init(&m, p.schedule, &p.partition, &err) != WEFT_OK)
            fail_msg("case %zu: %s", i, err.msg);
        assert_string_equal(m.layout, cases[i].want_layout != NULL ? cases[i].want_layout
                                                                   : cases[i].layout);
        assert_int_equal(m.pipeline_size, cases[i].params.ranks);
        assert_int_equal(m.n_micros, cases[i].params.micros);
        assert_int_equal(m.virtual_size, cases[i].virtual_size);
        assert_int_equal(m.group_size, cases[i].group);
        assert_int_equal(m.n_layers, cases[i].layers);
        assert_int_equal(m.n_mtp, cases[i].mtp);
        assert_int_equal(m.layers_per_stage, cases[i].per_stage);
        wf_megatron_release(&m);
        wf_plan_release(&p);
    }
}

static void megatron_text(void **state)
{
    struct wf_plan p =
        make("interleaved-1f1b", (struct weft_gen_params){.ranks = 2, .micros = 4, .chunks = 2},
             "Ett|tt|tm|L");
    char *text = NULL;
    (void)state;
    assert_int_equal(wf_export_print("megatron", p.schedule, &p.partition, &text, NULL),
                     WEFT_OK);
    assert_string_equal(text, "# Megatron-LM core d98e8a64 (22 Aug 2026)\n"
                              "# 4 micro-batches per step: --global-batch-size is 4 x "
                              "--micro-batch-size x data-parallel size\n"
                              "# virtual pipeline size 2, from the layout\n"
                              "--pipeline-model-parallel-size 2 \\\n"
                              "--num-layers 5 \\\n"
                              "--mtp-num-layers 1 \\\n"
                              "--microbatch-group-size-per-virtual-pipeline-stage 2 \\\n"
                              "--pipeline-model-parallel-layout 'Ett|tt|tm|L'\n");
    free(text);
    wf_plan_release(&p);
}

static void torchtitan_values(void **state)
{
    static const struct {
        const char *schedule;
        struct weft_gen_params params;
        const char *want;
    } cases[] = {
        {"1f1b", {.ranks = 4, .micros = 8}, "1F1B"},
        {"zb-h1", {.ranks = 4, .micros = 8}, "1F1B"},
        {"interleaved-1f1b", {.ranks = 4, .micros = 8, .chunks = 3}, "PipelineScheduleMulti"},
        {"looped-bfs", {.ranks = 2, .micros = 4, .chunks = 2}, "PipelineScheduleMulti"},
        {"zb-v", {.ranks = 4, .micros = 8, .chunks = 2}, "ZBVZeroBubble"},
        {"v-half", {.ranks = 4, .micros = 8, .chunks = 2}, "ZBVZeroBubble"},
        {"dualpipe-v", {.ranks = 2, .micros = 8, .chunks = 2}, "ZBVZeroBubble"},
        {"wave", {.ranks = 4, .micros = 8, .chunks = 2}, "ZBVZeroBubble"}, /* one wave is a V */
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_plan p = make(cases[i].schedule, cases[i].params, NULL);
        struct wf_torchtitan t;
        struct weft_error err = {.msg = ""};
        if (wf_torchtitan_init(&t, p.schedule, &p.partition, &err) != WEFT_OK)
            fail_msg("case %zu: %s", i, err.msg);
        assert_string_equal(t.schedule, cases[i].want);
        assert_int_equal(t.pipeline_degree, cases[i].params.ranks);
        assert_int_equal(t.n_micros, cases[i].params.micros);
        wf_plan_release(&p);
    }
}

static void torchtitan_text(void **state)
{
    struct wf_plan p =
        make("zb-v", (struct weft_gen_params){.ranks = 2, .micros = 4}, "Et|tt|t|L");
    struct wf_torchtitan t;
    char *text = NULL, name[WF_MODULE_NAME];
    (void)state;
    assert_int_equal(wf_torchtitan_init(&t, p.schedule, &p.partition, NULL), WEFT_OK);
    assert_int_equal(wf_torchtitan_n_modules(&t, 1), 2);
    wf_torchtitan_module(&t, 1, 1, name);
    assert_string_equal(name, "layers.2");
    assert_int_equal(wf_torchtitan_print(&t, &text, NULL), WEFT_OK);
    assert_string_equal(
        text,
        "# torchtitan b5bcd76c (21 Aug 2026)\n"
        "# zb-v.csv is the file of the schedule in PyTorch's format, without messages\n"
        "# the head of a model is lm_head or, in other versions, output\n"
        "config.parallelism.pipeline_parallel_degree = 2\n"
        "config.parallelism.pipeline_parallel_schedule = \"ZBVZeroBubble\"  # selects the "
        "placement, not the order\n"
        "config.parallelism.pipeline_parallel_schedule_csv = \"zb-v.csv\"\n"
        "config.parallelism.num_pp_microbatches = 4\n"
        "config.parallelism.module_fqns_per_model_part = [\n"
        "    [\"tok_embeddings\", \"layers.0\"],\n"
        "    [\"layers.1\", \"layers.2\"],\n"
        "    [\"layers.3\"],\n"
        "    [\"norm\", \"lm_head\"],\n"
        "]\n");
    free(text);
    wf_plan_release(&p);
}

static void refused(void **state)
{
    static const struct {
        const char *program, *schedule;
        struct weft_gen_params params;
        const char *layout, *want;
    } cases[] = {
        {"megatron", "zb-h1", {.ranks = 4, .micros = 8}, NULL, "cannot run the order of zb-h1"},
        {"megatron", "gpipe", {.ranks = 4, .micros = 8}, NULL, "cannot run the order of gpipe"},
        {"megatron",
         "looped-bfs",
         {.ranks = 2, .micros = 4, .chunks = 2},
         NULL,
         "cannot run the order of looped-bfs"},
        {"megatron",
         "zb-v",
         {.ranks = 4, .micros = 8, .chunks = 2},
         NULL,
         "places stage s on rank s mod 4; the placement of zb-v is v"},
        {"megatron",
         "chimera",
         {.ranks = 4, .micros = 8},
         NULL,
         "requires each stage on one rank"},
        {"megatron",
         "interleaved-1f1b",
         {.ranks = 4, .micros = 3, .chunks = 2},
         NULL,
         "a group of 3 micro-batches is smaller than the pipeline (4 ranks)"},
        {"megatron",
         "interleaved-1f1b",
         {.ranks = 2, .micros = 5, .chunks = 2, .group = 4},
         NULL,
         "the last group of micro-batches has 1; it must have at least 2"},
        {"megatron",
         "interleaved-1f1b",
         {.ranks = 1, .micros = 4, .chunks = 2},
         NULL,
         "several stages per rank need at least 2 ranks"},
        {"megatron",
         "interleaved-1f1b",
         {.ranks = 2, .micros = 4, .chunks = 2},
         "Ett|tm||L",
         "must be on the last stage of a rank; stage 1 is not"},
        {"torchtitan",
         "wave",
         {.ranks = 2, .micros = 4, .chunks = 4},
         NULL,
         "the placement of wave is wave with 4 stages per rank"},
        {"torchtitan",
         "chimera",
         {.ranks = 4, .micros = 8},
         NULL,
         "requires each stage on one rank"},
        {"torchtitan",
         "1f1b",
         {.ranks = 3, .micros = 8},
         "Ett|t|mL",
         "no layers for multi-token prediction; stage 2 has some"},
        {"torchtitan",
         "1f1b",
         {.ranks = 3, .micros = 8},
         "Ett||tL",
         "stage 1 has no layer; every stage needs a module"},
        {"nanotron",
         "1f1b",
         {.ranks = 2, .micros = 8},
         NULL,
         "'nanotron' is neither megatron nor torchtitan"},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_plan p = make(cases[i].schedule, cases[i].params, cases[i].layout);
        struct weft_error err = {.msg = ""};
        char *text = NULL;
        assert_int_equal(
            wf_export_print(cases[i].program, p.schedule, &p.partition, &text, &err),
            WEFT_USAGE);
        if (strstr(err.msg, cases[i].want) == NULL)
            fail_msg("case %zu: '%s', expected '%s'", i, err.msg, cases[i].want);
        wf_plan_release(&p);
    }
}

/* Ranks with different numbers of stages, and a schedule without backwards. */
static void refused_files(void **state)
{
    static const char uneven[] = "0F0,1F0,1B0,0B0\n2F0,2B0\n", forward[] = "0F0\n1F0\n";
    struct weft_schedule *s = NULL;
    struct weft_partition p = {0};
    struct weft_error err = {.msg = ""};
    char *text = NULL;
    (void)state;
    assert_int_equal(weft_schedule_parse(uneven, strlen(uneven), "u", &s, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 3, 3, NULL), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            wf_export_print(i == 0 ? "megatron" : "torchtitan", s, &p, &text, &err),
            WEFT_USAGE);
        assert_non_null(strstr(err.msg, "requires the same number of stages on every rank"));
    }
    weft_schedule_free(s);
    assert_int_equal(weft_schedule_parse(forward, strlen(forward), "f", &s, NULL), WEFT_OK);
    assert_int_equal(wf_export_print("megatron", s, &p, &text, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the schedule has 2 stages, the partition 3"));
    weft_partition_release(&p);
    assert_int_equal(weft_partition_init_even(&p, 2, 2, NULL), WEFT_OK);
    assert_int_equal(wf_export_print("megatron", s, &p, &text, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "has no backward"));
    weft_partition_release(&p);
    weft_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_values),   cmocka_unit_test(megatron_text),
        cmocka_unit_test(torchtitan_values), cmocka_unit_test(torchtitan_text),
        cmocka_unit_test(refused),           cmocka_unit_test(refused_files),
    };
    return cmocka_run_group_tests_name("export", tests, NULL, NULL) != 0;
}
