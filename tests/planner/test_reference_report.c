/* Checks the report of the reference cache model: settings as text, counts as JSON. */
#include "base/error.h"
#include "planning/planner/reference_report.h"

#include "sched/lines.h"
#include <jansson.h>

static struct settings_case {
    const char *text;
    struct weft_cache_settings want;
    const char *error; /* part of the error; NULL: accepted */
} cases[] = {
    {NULL, {false, WEFT_CACHE_POLICY_DISABLED, true, 1}, NULL},
    {"", {false, WEFT_CACHE_POLICY_DISABLED, true, 1}, NULL},
    {"enabled=1,policy=resident_block_summaries,reuse=1,inflight=8",
     {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, true, 8},
     NULL},
    {"inflight=18446744073709551615,reuse=0,policy=disabled",
     {false, WEFT_CACHE_POLICY_DISABLED, false, SIZE_MAX},
     NULL},
    {"enabled=0", {false, WEFT_CACHE_POLICY_DISABLED, true, 1}, NULL},
    {"enabled=yes", {0}, "enabled=yes"},
    {"enabled=", {0}, "0 or 1"},
    {"enabled=1,enabled=1", {0}, "twice"},
    {"enabled", {0}, "key=value"},
    {"enabled=1,", {0}, "comma"},
    {",enabled=1", {0}, "key=value"},
    {"enabled=1,,reuse=1", {0}, "key=value"},
    {"=1", {0}, "unknown key"},
    {"Enabled=1", {0}, "unknown key \"Enabled\""},
    {" enabled=1", {0}, "unknown key"},
    {"enabled=1 ", {0}, "0 or 1"},
    {"policy=resident", {0}, "policy=resident"},
    {"policy=disabled2", {0}, "disabled2"},
    {"inflight=0", {false, WEFT_CACHE_POLICY_DISABLED, true, 0}, NULL},
    {"inflight=-1", {0}, "whole number"},
    {"inflight=+1", {0}, "whole number"},
    {"inflight=1x", {0}, "inflight=1x"},
    {"inflight=1e3", {0}, "inflight=1e3"},
    {"inflight=", {0}, "whole number"},
    {"inflight=18446744073709551616", {0}, "whole number"},
};

static void check_settings(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        const struct settings_case *c = &cases[i];
        struct weft_cache_settings got = {true, WEFT_CACHE_POLICY_DISABLED, false, 99};
        struct weft_error err = {0};
        enum weft_status st = wf_cache_settings_parse(c->text, &got, &err);
        if (c->error != NULL) {
            assert_int_equal(st, WEFT_USAGE);
            if (strstr(err.msg, c->error) == NULL)
                fail_msg("%s: %s", c->text, err.msg);
            assert_int_equal(got.max_inflight_micros, 99); /* untouched */
            continue;
        }
        assert_int_equal(st, WEFT_OK);
        assert_int_equal(got.enabled, c->want.enabled);
        assert_int_equal(got.policy, c->want.policy);
        assert_int_equal(got.reuse_across_backward, c->want.reuse_across_backward);
        assert_int_equal(got.max_inflight_micros, c->want.max_inflight_micros);
    }
}

/* Computes the traffic of four ranks, two chunks, one micro-batch and eight layers per block.
 * 3 of 14 transfers are hits, because boundaries share keys. */
static struct weft_ref_traffic report(bool trace)
{
    struct weft_gen_params params = {.ranks = 4, .micros = 1, .chunks = 2};
    struct weft_ref_traffic_settings settings = {
        .mode = WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE,
        .cache = {true, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, false, 2},
        .layers_per_block = 8,
        .payload_bytes = 100,
        .trace = trace};
    struct weft_ref_traffic c;
    struct weft_schedule *s = NULL;
    struct weft_partition p;
    assert_int_equal(weft_schedule_generate("greedy-gpipe", &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 8, 8, NULL), WEFT_OK);
    assert_int_equal(weft_ref_traffic_compute(s, &p, &settings, &c, NULL), WEFT_OK);
    weft_partition_release(&p);
    weft_schedule_free(s);
    return c;
}

static void check_json(void **state)
{
    static const char want[] =
        "{\"raw_payload_bytes_requested\":1400,\"payload_bytes_transmitted\":1100,"
        "\"cache_hits\":3,\"cache_misses\":11,\"resend_count_avoided\":3,"
        "\"backward_reuse_hits\":0,\"invalidated_entries\":0,\"forward_transfer_requests\":7,"
        "\"backward_transfer_requests\":7,\"stage_transmitted_bytes\":[300,300,300,200],"
        "\"bytes_saved\":300,\"cache_hit_rate\":0.21428572,\"cache_hit_rate_bits\":1046179255";

    (void)state;
    for (int trace = 0; trace < 2; trace++) {
        struct weft_ref_traffic c = report(trace);
        char got[1000] = "", whole[1000];
        FILE *out = fmemopen(got, sizeof got, "w");
        struct wf_json j = {.out = out};

        wf_ref_traffic_write_json(&j, NULL, &c);
        fclose(out);
        snprintf(whole, sizeof whole, "%s%s}", want,
                 trace ? ",\"trace\":\"mmmmhhh-bbbbbbb-\"" : "");
        assert_string_equal(got, whole);

        json_t *root = json_loads(got, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(root);
        json_decref(root);

        weft_ref_traffic_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_settings),
        cmocka_unit_test(check_json),
    };
    return cmocka_run_group_tests_name("reference report", tests, NULL, NULL) != 0;
}
