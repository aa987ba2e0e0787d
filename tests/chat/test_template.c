/* Compares the template interpreter with recorded outputs of jinja2 (tests/chat/record.py), and
 * tests refusals and limits. */
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
#include "base/input.h"
#include "training/chat/chat.h"
#include "training/chat/template.h"

static json_t *load_recorded(void)
{
    json_error_t why;
    json_t *root = json_load_file(WEFT_TEST_DATA "/chat/rendered.json", 0, &why);
    if (root == NULL)
        fail_msg("rendered.json:%d: %s", why.line, why.text);
    return root;
}

static struct wf_chat *open_chat(const char *name, json_t *tokens)
{
    char path[512], *text = NULL;
    size_t len = 0;
    struct wf_chat *chat = NULL;
    struct weft_error err = {.msg = ""};
    snprintf(path, sizeof path, WEFT_TEST_DATA "/chat/%s.jinja", name);
    assert_int_equal(wf_input_read(path, &text, &len, NULL), WEFT_OK);
    if (wf_chat_new(text, len, name, tokens, &chat, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    free(text);
    return chat;
}

/* All templates with all conversations, with and without a prompt.  What jinja2 refuses is
 * refused. */
static void templates_render_as_jinja(void **state)
{
    (void)state;
    json_t *root = load_recorded(), *cases, *c, *tokens = json_object_get(root, "tokens");
    const char *name;
    size_t i, n = 0;
    json_object_foreach(json_object_get(root, "templates"), name, cases)
    {
        struct wf_chat *chat = open_chat(name, tokens);
        json_array_foreach(cases, i, c)
        {
            const char *kind = json_string_value(json_object_get(c, "case"));
            const char *want = json_string_value(json_object_get(c, "want"));
            json_t *record = json_object_get(json_object_get(root, "conversations"), kind);
            struct wf_text have = {0};
            struct weft_error err = {.msg = ""};
            enum weft_status st = wf_chat_render(
                chat, record, json_is_true(json_object_get(c, "prompt")), &have, &err);
            n++;
            if (want == NULL) {
                assert_int_equal(st, WEFT_DATA);
                assert_true(err.msg[0] != '\0');
            } else if (st != WEFT_OK) {
                fail_msg("%s, %s: %s", name, kind, err.msg);
            } else {
                assert_string_equal(have.at, want);
            }
            wf_text_release(&have);
        }
        wf_chat_free(chat);
    }
    assert_true(n >= 150);
    json_decref(root);
}

static enum weft_status render(const char *text, struct wf_template_output *out,
                               struct weft_error *err)
{
    struct wf_template *t = NULL;
    enum weft_status st = wf_template_parse(text, strlen(text), "t", &t, err);
    if (st == WEFT_OK)
        st = wf_template_render(t, NULL, out, err);
    wf_template_free(t);
    return st;
}

static void expressions_render_as_jinja(void **state)
{
    (void)state;
    json_t *root = load_recorded(), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "expressions"), i, c)
    {
        const char *text = json_string_value(json_object_get(c, "template"));
        struct wf_template_output have = {0};
        struct weft_error err = {.msg = ""};
        if (render(text, &have, &err) != WEFT_OK)
            fail_msg("%s: %s", text, err.msg);
        const char *want = json_string_value(json_object_get(c, "want"));
        if (strcmp(have.text.at == NULL ? "" : have.text.at, want) != 0)
            fail_msg("%s\nhave %s\nwant %s", text, have.text.at, want);
        wf_template_output_release(&have);
    }
    assert_true(i >= 20);
    json_decref(root);
}

static struct refusal {
    const char *name, *text, *message;
} refusals[] = {
    {"a statement", "a\n{% include 'x' %}", "t:2: the statement 'include' is not supported"},
    {"a filter", "{{ x|shuffle }}", "t:1: the filter 'shuffle' is not supported"},
    {"a test", "{{ x is prime }}", "t:1: the test 'prime' is not supported"},
    {"a function", "\n\n{{ now() }}", "t:3: the function 'now' is not defined"},
    {"the time", "{{ strftime_now('%Y') }}", "t:1: the function 'strftime_now' is not defined"},
    {"a method", "{{ 'a'.format(1) }}", "t:1: the function 'format' is not defined"},
    {"a change of the input", "{{ [1].append(2) }}", "the function 'append' is not defined"},
    {"an open tag", "a {{ b", "t:1: the tag has no end"},
    {"an open block", "{% if a %}b", "t:1: the block has no 'elif'"},
    {"an open comment", "{# a", "t:1: the comment has no end"},
    {"an open string", "{{ 'a }}", "t:1: the string has no end"},
    {"an undefined value", "{{ a.b }}", "t:1: 'a' is undefined"},
    {"a wrong sum", "{{ 1 + 'a' }}", "t:1: a whole number + a string is not possible"},
    {"a division by zero", "{{ 1 // 0 }}", "t:1: division by zero"},
    {"an overflow", "{{ 9223372036854775807 + 1 }}", "t:1: a number is too large"},
    {"an exception", "{{ raise_exception('No ' ~ 1) }}",
     "t:1: the template refuses the conversation: No 1"},
    {"too many steps",
     "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% set c = a %}{% endfor %}"
     "{% endfor %}",
     "runs for more than"},
    {"too much output", "{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}",
     "the output is larger than 64 MiB"},
    {"too much memory",
     "{% set n = namespace(s='xxxxxxxx') %}{% for a in range(99) %}{% set n.s = n.s + n.s %}"
     "{% endfor %}",
     "needs more than 256 MiB of memory"},
    {"endless recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
     "nested deeper than 400 levels"},
    {"a large range", "{{ range(999999) }}", "range: more than 100000 numbers"},
};

static void check_refused(void **state)
{
    const struct refusal *c = *state;
    struct wf_template_output out = {0};
    struct weft_error err = {.msg = ""};
    assert_int_equal(render(c->text, &out, &err), WEFT_DATA);
    if (strstr(err.msg, c->message) == NULL)
        fail_msg("'%s' lacks '%s'", err.msg, c->message);
    wf_template_output_release(&out);
}

/* Nesting that would exhaust the stack of a recursive parser. */
static void deep_nesting_is_refused(void **state)
{
    static const struct {
        const char *open, *close;
    } kinds[] = {{"(", ")"}, {"[", "]"}, {"{'a': ", "}"}, {"-", ""}, {"not ", ""}, {"f(", ")"}};
    (void)state;
    for (size_t k = 0; k < WEFT_LEN(kinds); k++) {
        struct wf_text text = {0};
        struct wf_template_output out = {0};
        struct weft_error err = {.msg = ""};
        wf_text_adds(&text, "{{ ");
        for (int i = 0; i < 50000; i++)
            wf_text_adds(&text, kinds[k].open);
        wf_text_adds(&text, "1");
        for (int i = 0; i < 50000; i++)
            wf_text_adds(&text, kinds[k].close);
        wf_text_adds(&text, " }}");
        enum weft_status st = render(text.at, &out, &err);
        assert_true(strcmp(kinds[k].open, "not ") == 0 ? st == WEFT_OK : st == WEFT_DATA);
        wf_template_output_release(&out);
        wf_text_release(&text);
    }
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(refusals) + 3] = {
        cmocka_unit_test(templates_render_as_jinja),
        cmocka_unit_test(expressions_render_as_jinja),
        cmocka_unit_test(deep_nesting_is_refused),
    };
    for (size_t i = 0; i < WEFT_LEN(refusals); i++)
        tests[i + 3] =
            (struct CMUnitTest){refusals[i].name, check_refused, NULL, NULL, &refusals[i]};
    return cmocka_run_group_tests_name("template", tests, NULL, NULL) != 0;
}
