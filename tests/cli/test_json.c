/* Checks that weft check --json prints the findings of the text output as JSON. */
#define _DEFAULT_SOURCE /* popen */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"

static struct json_case {
    const char *name, *text, *options;
    int ok;
    const char *rule, *action; /* of the first finding; no action: after the last one */
    int rank, position;
    size_t n_cycle;
} cases[] = {
    {"right", "0F0,0B0\\n1F0,1B0\\n", "", 1, NULL, NULL, 0, 0, 0},
    {"missing: at the last action of its stage and micro", "0F0,0F1,0B1\\n", "", 0, "missing",
     "0F0", 0, 0, 0},
    {"missing: after the last action", "0F1,0B1\\n", "", 0, "missing", NULL, 0, 2, 0},
    {"missing: on the second rank", "0F0,0B0\\n1F0\\n", "", 0, "missing", "1F0", 1, 0, 0},
    {"a reduction is missing", "0F0,0B0\\n1F0,1B0,1REDUCE_GRAD\\n", "", 0, "missing", "0B0", 0,
     1, 0},
    {"half a pair", "(0F0;0B0)OVERLAP_F_B\\n", "", 0, "deadlock", "0B0", 0, 1, 1},
    {"a finding at a cell", "0F0,0F1,0B1,0B0,0B0\\n", "", 0, "duplicate", "0B0", 0, 4, 0},
    {"a deadlock", "0F0,0B0,0F1,0B1\\n1F1,1F0,1B0,1B1\\n", "", 0, "deadlock", "0B0", 0, 1, 2},
    {"a deadlock of sends", "0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1\\n",
     "--lower=weft --transport rendezvous", 0, "deadlock", "0SEND_F1", 0, 3, 2},
};

/* Runs `weft check - --json` on a text and parses its output.  The exit code must be `code`. */
static json_t *run(const char *text, const char *options, int code)
{
    char command[1024];
    json_error_t error;
    snprintf(command, sizeof command, "printf '%s' | '%s' check - --json %s 2>/dev/null", text,
             WEFT_BINARY, options);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *j = json_loadf(out, JSON_REJECT_DUPLICATES, &error);
    int status = pclose(out);
    if (j == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
    return j;
}

static long long number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *string(const json_t *j, const char *key)
{
    const char *value = json_string_value(json_object_get(j, key));
    return value != NULL ? value : "(none)";
}

static void check_first(const struct json_case *c, const json_t *first)
{
    assert_string_equal(string(first, "rule"), c->rule);
    assert_int_equal(number(first, "rank"), c->rank);
    assert_int_equal(number(first, "position"), c->position);
    if (c->action != NULL)
        assert_string_equal(string(first, "action"), c->action);
    else
        assert_null(json_object_get(first, "action"));
    assert_true(strlen(string(first, "text")) > 10);
}

static void check_json(void **state)
{
    const struct json_case *c = *state;
    json_t *j = run(c->text, c->options, c->ok ? 0 : 5);
    assert_int_equal(json_is_true(json_object_get(j, "ok")), c->ok);
    assert_null(json_object_get(j, "error"));
    assert_int_equal(json_array_size(json_object_get(j, "peak_activations")),
                     number(j, "ranks"));
    json_t *findings = json_object_get(j, "findings"), *cycle = json_object_get(j, "cycle");
    assert_int_equal(json_array_size(findings), number(j, "n_findings"));
    assert_int_equal(json_array_size(findings) == 0, c->ok);
    if (!c->ok)
        check_first(c, json_array_get(findings, 0));
    assert_int_equal(json_array_size(cycle), c->n_cycle);
    for (size_t i = 0; i < c->n_cycle; i++)
        assert_int_equal(number(json_array_get(cycle, i), "of_rank"),
                         number(json_array_get(cycle, (i + 1) % c->n_cycle), "rank"));
    json_decref(j);
}

/* A finding about the whole schedule is the last one and has no position. */
static void check_no_position(void **state)
{
    (void)state;
    json_t *j = run("0F0,0F1,0F2,0B0,9B1,0B2\\n1F0,1F1,1F2,1B0,1B1,1B2\\n", "", 5);
    json_t *findings = json_object_get(j, "findings");
    json_t *last = json_array_get(findings, json_array_size(findings) - 1);
    assert_string_equal(string(last, "rule"), "missing");
    assert_non_null(strstr(string(last, "text"), " need more than "));
    assert_null(json_object_get(last, "rank"));
    assert_null(json_object_get(last, "position"));
    assert_null(json_object_get(last, "action"));
    json_decref(j);
}

/* A malformed schedule gives JSON, too, with its exit code. */
static void check_malformed(void **state)
{
    (void)state;
    static const char *const texts[] = {"0F0,1G0\\n", "", "# weft schedule 9\\n0F0,0B0\\n"};
    static const char *const words[] = {"'1G0' is not an action", "no actions",
                                        "unsupported version of the schedule format"};
    for (size_t i = 0; i < WEFT_LEN(texts); i++) {
        json_t *j = run(texts[i], "", 5);
        assert_string_equal(string(j, "file"), "-");
        assert_true(json_is_false(json_object_get(j, "ok")));
        assert_non_null(strstr(string(j, "error"), words[i]));
        assert_int_equal(json_object_size(j), 3);
        json_decref(j);
    }
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 2];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, check_json, NULL, NULL, &cases[i]};
    tests[n++] = (struct CMUnitTest){"a finding without a position", check_no_position, NULL,
                                     NULL, NULL};
    tests[n++] = (struct CMUnitTest){"a malformed schedule", check_malformed, NULL, NULL, NULL};
    return cmocka_run_group_tests_name("check --json", tests, NULL, NULL) != 0;
}
