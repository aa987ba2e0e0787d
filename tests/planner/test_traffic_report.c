/* Checks the traffic report of residual blocks: totals and JSON. */
#include "planning/planner/traffic_report.h"
#include "sched/lines.h"
#include <jansson.h>

/* Makes the report of two ranks with two chunks each and one block per layer.  Stage 0 finishes
 * b0 and b1, and every other stage one block. */
static void make(struct weft_traffic **table, struct wf_traffic_report *r,
                 struct weft_schedule **s)
{
    struct weft_gen_params params = {.ranks = 2, .micros = 4, .chunks = 2};
    struct weft_partition p;
    uint32_t *finished_by = NULL, n = 0;
    assert_int_equal(weft_schedule_generate("interleaved-1f1b", &params, s, NULL), WEFT_OK);
    assert_int_equal(weft_partition_init_even(&p, 4, 4, NULL), WEFT_OK);
    assert_int_equal(weft_residual_blocks(&p, 1, &finished_by, &n, NULL), WEFT_OK);
    assert_int_equal(n, 5);
    assert_int_equal(weft_traffic_new(weft_schedule_placement(*s), finished_by, n,
                                      WEFT_BLOCK_CACHE_FULL, table, NULL),
                     WEFT_OK);
    assert_int_equal(
        wf_traffic_report_init(r, *table, *s, (struct weft_payload){100, 800}, 1, NULL),
        WEFT_OK);
    free(finished_by);
    weft_partition_release(&p);
}

static json_t *at(json_t *list, size_t i)
{
    json_t *value = json_array_get(list, i);
    assert_non_null(value);
    return value;
}

static long long number(json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

/* Sends: 0 -> 1 b0 b1, 1 -> 2 b2, 2 -> 3 b3; rank 0 to 1 twice and rank 1 to 0
 * once per micro. */
static void check_json(void **state)
{
    struct weft_traffic *t = NULL;
    struct weft_schedule *s = NULL;
    struct wf_traffic_report r;
    char text[4000] = "";

    (void)state;
    make(&t, &r, &s);
    FILE *out = fmemopen(text, sizeof text, "w");
    struct wf_json j = {.out = out};
    wf_traffic_write_json(&j, NULL, &r);
    fclose(out);

    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "residual_cache")), "full");
    assert_int_equal(number(root, "residual_block_layers"), 1);
    assert_int_equal(number(root, "payload_bytes"), 100);
    assert_int_equal(number(root, "gradient_bytes"), 800);
    assert_int_equal(number(root, "blocks"), 5);

    json_t *finished = json_object_get(root, "finished_by");
    const int want[] = {0, 0, 1, 2, 3};
    for (size_t b = 0; b < 5; b++)
        assert_int_equal(json_integer_value(at(finished, b)), want[b]);

    json_t *pipe = at(json_object_get(root, "pipes"), 0);
    json_t *count = json_object_get(pipe, "per_micro");
    assert_int_equal(number(count, "wanted"), 2 + 3 + 4);
    assert_int_equal(number(count, "sent"), 4);
    assert_int_equal(number(count, "hits_made"), 2 + 1);
    assert_int_equal(number(count, "hits_received"), 2);
    assert_int_equal(number(count, "hops"), 3);

    json_t *hop = at(json_object_get(pipe, "transitions"), 1);
    assert_int_equal(number(hop, "from"), 1);
    assert_int_equal(number(hop, "to"), 0);
    assert_int_equal(json_array_size(json_object_get(hop, "send")), 1);
    assert_int_equal(json_integer_value(at(json_object_get(hop, "send"), 0)), 2);

    json_t *bringers = json_object_get(pipe, "bringers");
    assert_int_equal(json_integer_value(at(at(bringers, 0), 2)), 2);
    assert_true(json_is_null(at(at(bringers, 0), 4))); /* the last stage makes it, on rank 1 */

    json_t *step = json_object_get(root, "step");
    assert_int_equal(number(step, "blocks"), 16);
    assert_int_equal(number(step, "forward_bytes"), (12 + 16) * 100);
    assert_int_equal(number(step, "backward_bytes"), 12 * 100 + 16 * 800);

    json_t *link = at(json_object_get(step, "links"), 0);
    assert_int_equal(number(link, "from"), 0);
    assert_int_equal(number(link, "forward_bytes"), (2 * 4 + 3 * 4) * 100);
    assert_int_equal(number(link, "backward_bytes"), 4 * (100 + 800));
    assert_int_equal(json_array_size(json_object_get(step, "links")), 2);
    assert_int_equal(json_array_size(json_object_get(step, "peak_cached_bytes")), 2);

    json_decref(root);
    wf_traffic_report_release(&r);
    weft_traffic_free(t);
    weft_schedule_free(s);
}

static void check_cache_names(void **state)
{
    enum weft_block_cache cache = WEFT_BLOCK_CACHE_OFF;
    struct weft_error err;
    (void)state;
    assert_int_equal(wf_block_cache_parse(NULL, &cache, NULL), WEFT_OK);
    assert_int_equal(cache, WEFT_BLOCK_CACHE_FULL);
    assert_int_equal(wf_block_cache_parse("received", &cache, NULL), WEFT_OK);
    assert_int_equal(cache, WEFT_BLOCK_CACHE_RECEIVED);
    assert_int_equal(wf_block_cache_parse("off", &cache, NULL), WEFT_OK);
    assert_int_equal(cache, WEFT_BLOCK_CACHE_OFF);
    assert_int_equal(wf_block_cache_parse("on", &cache, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "\"on\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_json),
        cmocka_unit_test(check_cache_names),
    };
    return cmocka_run_group_tests_name("traffic report", tests, NULL, NULL) != 0;
}
