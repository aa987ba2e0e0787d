/* weft check --json: what it prints is JSON and says what the text says. */
#define _DEFAULT_SOURCE /* popen */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"

static struct json_case {
    const char *name, *text, *options;
    int ok;
    const char *rule, *action; /* of the first finding */
    int rank, position;        /* -1: it stands nowhere */
    size_t n_cycle;
} cases[] = {
    {"right", "0F0,0B0\\n1F0,1B0\\n", "", 1, NULL, NULL, 0, 0, 0},
    {"missing", "0F0\\n", "", 0, "missing", NULL, -1, -1, 0},
    {"a finding at a cell", "0F0,0F1,0B1,0B0,0B0\\n", "", 0, "duplicate", "0B0", 0, 4, 0},
    {"a deadlock", "0F0,0B0,0F1,0B1\\n1F1,1F0,1B0,1B1\\n", "", 0, "deadlock", "0B0", 0, 1, 2},
    {"a deadlock of sends", "0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1\\n", "--transport rendezvous", 0,
     "deadlock", "0SEND_F1", 0, 3, 2},
};

static json_t *run(const struct json_case *c)
{
    char command[1024];
    json_error_t error;
    snprintf(command, sizeof command, "printf '%s' | '%s' check - --json %s 2>/dev/null",
             c->text, WEFT_BINARY, c->options);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *j = json_loadf(out, JSON_REJECT_DUPLICATES, &error);
    pclose(out);
    if (j == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    return j;
}

static long long number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void check_json(void **state)
{
    const struct json_case *c = *state;
    json_t *j = run(c);
    assert_int_equal(json_is_true(json_object_get(j, "ok")), c->ok);
    assert_int_equal(json_array_size(json_object_get(j, "peak_activations")),
                     number(j, "ranks"));
    json_t *findings = json_object_get(j, "findings");
    assert_int_equal(json_array_size(findings), number(j, "n_findings"));
    assert_int_equal(json_array_size(findings) == 0, c->ok);
    json_t *first = json_array_get(findings, 0), *cycle = json_object_get(j, "cycle");
    if (!c->ok)
        assert_string_equal(json_string_value(json_object_get(first, "rule")), c->rule);
    if (!c->ok && c->rank >= 0) {
        assert_int_equal(number(first, "rank"), c->rank);
        assert_int_equal(number(first, "position"), c->position);
        assert_string_equal(json_string_value(json_object_get(first, "action")), c->action);
    } else {
        assert_null(json_object_get(first, "rank"));
    }
    assert_int_equal(json_array_size(cycle), c->n_cycle);
    for (size_t i = 0; i < c->n_cycle; i++)
        assert_int_equal(number(json_array_get(cycle, i), "of_rank"),
                         number(json_array_get(cycle, (i + 1) % c->n_cycle), "rank"));
    json_decref(j);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases)];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check_json, NULL, NULL, &cases[i]};
    return cmocka_run_group_tests_name("check --json", tests, NULL, NULL) != 0;
}
