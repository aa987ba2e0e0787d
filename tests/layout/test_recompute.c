/* Tests which layers recompute their activations: lists of layers and stages, and the least
 * recomputation that fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/layout/topology.h"

enum { LAYERS = 5 };

static void set(struct wf_train_settings *s, const char *key, const char *value)
{
    struct weft_error err = {0};
    if (wf_settings_set(wf_train_setting_list(), key, value, s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static void make_settings(struct wf_train_settings *s, const char *arch, const char *pp)
{
    static const char *const keys[][2] = {
        {"model.layers", "5"},     {"model.dim", "64"},
        {"model.heads", "2"},      {"model.ffn", "192"},
        {"model.vocab", "256"},    {"model.ctx", "64"},
        {"data.batch", "8"},       {"parallel.micros", "4"},
        {"parallel.threads", "1"}, {"parallel.partition", "even"},
    };
    assert_int_equal(wf_settings_init(wf_train_setting_list(), s, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(keys); i++)
        set(s, keys[i][0], keys[i][1]);
    set(s, "model.arch", arch);
    set(s, "parallel.pp", pp);
}

static enum weft_status make_topology(struct wf_topology *l, const char *arch, const char *pp,
                                      const char *recompute, size_t limit,
                                      struct weft_error *err)
{
    struct wf_train_settings s;
    struct weft_model model;
    make_settings(&s, arch, pp);
    set(&s, "train.recompute", recompute);
    s.train.memory_limit = limit;
    assert_int_equal(wf_train_settings_model(&s, &model, NULL), WEFT_OK);
    enum weft_status st = wf_topology_init(l, &s, &model, err);
    wf_settings_release(wf_train_setting_list(), &s);
    return st;
}

/* -- lists --------------------------------------------------------------------------------- */

static struct list_case {
    const char *text, *pp;
    const char want[LAYERS + 1]; /* by layer: - none, a attention, f full */
    const char *printed;
} lists[] = {
    {"none", "1", "-----", "none"},
    {"full", "1", "fffff", "full"},
    {"attention", "1", "aaaaa", "attention"},
    {"full:1-2", "1", "-ff--", "full:1-2"},
    {"full:0,2,attention:4", "1", "f-f-a", "full:0,2,attention:4"},
    {"full:0-4", "1", "fffff", "full"},
    {"full:s0", "2", "fff--", "full:0-2"}, /* the even partition is 3 and 2 layers */
    {"attention:s1,full:0", "2", "f--aa", "full:0,attention:3-4"},
    {"full:s0-1", "2", "fffff", "full"},
};

static void check_list(void **state)
{
    const struct list_case *c = *state;
    struct wf_topology l;
    struct weft_error err = {0};
    if (make_topology(&l, "gpt2", c->pp, c->text, 0, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal("-af"[l.recompute[i]], c -> want[i]);
    struct wf_text text = {0};
    wf_topology_print_recompute(&l, &text);
    assert_string_equal(text.at, c->printed);
    wf_text_release(&text);
    wf_topology_release(&l);
}

static struct error_case {
    const char *text, *want;
} errors[] = {
    {"full:5", "train.recompute: column 6: there is no layer 5; expected 0 to 4"},
    {"full:0,attention:s2", "column 18: there is no stage 2; expected 0 to 1"},
    {"full:0-2,attention:2", "column 20: layer 2 is listed twice"},
    {"full:s0,2", "column 9: layer 2 is listed twice"},
    {"full:x", "column 6: unexpected 'x'"},
};

static void check_error(void **state)
{
    const struct error_case *c = *state;
    struct wf_topology l;
    struct weft_error err = {0};
    assert_int_equal(make_topology(&l, "gpt2", "2", c->text, 0, &err), WEFT_USAGE);
    if (strstr(err.msg, c->want) == NULL)
        fail_msg("%s", err.msg);
}

/* -- the least that fits ------------------------------------------------------------------- */

static size_t total(const struct wf_topology *l)
{
    size_t bytes;
    assert_int_equal(wf_topology_total_bytes(l, false, &bytes, NULL), WEFT_OK);
    return bytes;
}

static double work(const struct wf_topology *l)
{
    double sum = 0;
    for (uint32_t i = 0; i < LAYERS; i++)
        sum += weft_recompute_share(&l->model, (enum weft_recompute)l->recompute[i], l->seq);
    return sum;
}

/* Returns the fewest operations of all 3^5 assignments that fit; negative: none fits. */
static double least_work(struct wf_topology *l, size_t limit)
{
    double least = -1;
    for (unsigned code = 0; code < 243; code++) {
        unsigned rest = code;
        for (uint32_t i = 0; i < LAYERS; i++, rest /= 3)
            l->recompute[i] = (uint8_t)(rest % 3);
        if (total(l) <= limit && (least < 0 || work(l) < least))
            least = work(l);
    }
    return least;
}

/* On one rank all layers are equal, so the choice is a minimum over all assignments. */
static void check_least(void **state)
{
    const char *arch = *state;
    struct wf_topology none, full, fit;
    assert_int_equal(make_topology(&none, arch, "1", "none", 0, NULL), WEFT_OK);
    assert_int_equal(make_topology(&full, arch, "1", "full", 0, NULL), WEFT_OK);
    size_t most = total(&none), least = total(&full);
    assert_true(least < most);

    for (int i = 0; i <= 8; i++) {
        size_t limit = least + (most - least) * (size_t)i / 8;
        struct weft_error err = {0};
        if (make_topology(&fit, arch, "1", "auto", limit, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        assert_true(total(&fit) <= limit);

        double got = work(&fit), want = least_work(&none, limit);
        if (got > want + 1e-9 || got < want - 1e-9)
            fail_msg("%s, limit %zu: work %g instead of %g", arch, limit, got, want);
        if (i == 8)
            assert_true(got == 0);

        wf_topology_release(&fit);
    }

    wf_topology_release(&none);
    wf_topology_release(&full);
}

/* If nothing fits, everything is recomputed, and the start check reports the memory. */
static void check_too_small(void **state)
{
    (void)state;
    struct wf_topology l;
    assert_int_equal(make_topology(&l, "gpt2", "2", "auto", 1000, NULL), WEFT_OK);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(l.recompute[i], WEFT_RECOMPUTE_FULL);
    assert_int_equal(l.memory_limit, 1000);
    wf_topology_release(&l);
}

/* Each machine has its own limit: only the layers of the larger one recompute. */
static void check_machines(void **state)
{
    (void)state;
    struct wf_topology l;
    struct wf_rank_bytes first, last;
    assert_int_equal(make_topology(&l, "gpt2", "2", "none", 0, NULL), WEFT_OK);
    assert_int_equal(wf_topology_rank_bytes(&l, 0, true, &first, NULL), WEFT_OK);
    assert_int_equal(wf_topology_rank_bytes(&l, 1, true, &last, NULL), WEFT_OK);
    assert_true(first.total > last.total + 1000); /* 3 layers and more micros in flight */
    l.ranks_per_host = 1;
    l.memory_limit = first.total - 1;
    assert_int_equal(wf_topology_fit_recompute(&l, true, NULL), WEFT_OK);
    assert_true(l.recompute[0] != WEFT_RECOMPUTE_NONE);
    for (uint32_t i = 3; i < LAYERS; i++)
        assert_int_equal(l.recompute[i], WEFT_RECOMPUTE_NONE);
    assert_int_equal(wf_topology_rank_bytes(&l, 0, true, &first, NULL), WEFT_OK);
    assert_true(first.total <= l.memory_limit);
    wf_topology_release(&l);
}

/* Recomputation costs time: the input gradient of a stage with two full layers takes two
 * shares of a layer's forward longer. */
static void check_cost(void **state)
{
    (void)state;
    struct wf_topology none, some;
    assert_int_equal(make_topology(&none, "gpt2", "2", "none", 0, NULL), WEFT_OK);
    assert_int_equal(make_topology(&some, "gpt2", "2", "full:1-2", 0, NULL), WEFT_OK);
    /* With dim 64, ffn 192, seq 64: q, k and v 3 * 64^2, scores 2 * 64 * 64, projection 64^2,
     * MLP 64 * 192.  The second product of the MLP is not recomputed.  A micro-batch has 2 * 64
     * tokens. */
    double extra = 2 * 2.0 * 128 * (4 * 4096 + 8192 + 12288);
    double diff = some.sums.i[0] - none.sums.i[0];
    assert_true(diff > 0.999999 * extra && diff < 1.000001 * extra);
    assert_true(some.sums.i[1] == none.sums.i[1]);
    wf_topology_release(&none);
    wf_topology_release(&some);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(lists) + WEFT_LEN(errors) + 5];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        tests[n++] = (struct CMUnitTest){lists[i].text, check_list, NULL, NULL, &lists[i]};
    for (size_t i = 0; i < WEFT_LEN(errors); i++)
        tests[n++] = (struct CMUnitTest){errors[i].want, check_error, NULL, NULL, &errors[i]};
    tests[n++] = (struct CMUnitTest){"least, gpt2", check_least, NULL, NULL, (void *)"gpt2"};
    tests[n++] = (struct CMUnitTest){"least, llama", check_least, NULL, NULL, (void *)"llama"};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_too_small);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_machines);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_cost);
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL) != 0;
}
