/* Filters and tests of templates. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

typedef struct wf_tpl_value filter_fn(struct wf_tpl_run *r, struct wf_tpl_value x,
                                      const struct wf_tpl_args *args, uint32_t line);

/* -- filters of strings -------------------------------------------------------------------- */

static struct wf_tpl_value filter_trim(struct wf_tpl_run *r, struct wf_tpl_value x,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value set = wf_tpl_arg(args, 0, "chars");
    (void)line;
    return wf_tpl_strip(wf_tpl_str(r, x).s, set.kind == WF_TPL_STRING ? &set.s : NULL, true,
                        true);
}

static struct wf_tpl_value filter_upper(struct wf_tpl_run *r, struct wf_tpl_value x,
                                        const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, wf_tpl_str(r, x).s, 'U');
}

static struct wf_tpl_value filter_lower(struct wf_tpl_run *r, struct wf_tpl_value x,
                                        const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, wf_tpl_str(r, x).s, 'L');
}

static struct wf_tpl_value filter_capitalize(struct wf_tpl_run *r, struct wf_tpl_value x,
                                             const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, wf_tpl_str(r, x).s, 'C');
}

static struct wf_tpl_value filter_string(struct wf_tpl_run *r, struct wf_tpl_value x,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_str(r, x);
}

static struct wf_tpl_value filter_safe(struct wf_tpl_run *r, struct wf_tpl_value x,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    (void)r;
    (void)args;
    (void)line;
    return x;
}

static struct wf_tpl_value filter_replace(struct wf_tpl_run *r, struct wf_tpl_value x,
                                          const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value count = wf_tpl_arg(args, 2, "count");
    return wf_tpl_replace(r, wf_tpl_str(r, x).s, wf_tpl_str(r, wf_tpl_arg(args, 0, "old")).s,
                          wf_tpl_str(r, wf_tpl_arg(args, 1, "new")).s,
                          count.kind == WF_TPL_INT ? count.i : -1, line);
}

/* Indents all lines but the first; empty lines only if asked. */
static struct wf_tpl_value filter_indent(struct wf_tpl_run *r, struct wf_tpl_value x,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value width = wf_tpl_arg(args, 0, "width");
    bool first = wf_tpl_truth(wf_tpl_arg(args, 1, "first"));
    bool blank = wf_tpl_truth(wf_tpl_arg(args, 2, "blank"));
    struct wf_tpl_string s = wf_tpl_str(r, x).s;
    int64_t n = width.kind == WF_TPL_INT ? width.i : 4;
    struct wf_text text = {0};
    bool start = first;
    if (n < 0 || n > 1000)
        return wf_tpl_raise(r, line, "indent: the width is out of range");
    for (size_t i = 0; i < s.len; i++) {
        if (start && (blank || s.at[i] != '\n'))
            wf_text_addf(&text, "%*s", (int)n, "");
        wf_text_addc(&text, s.at[i]);
        start = s.at[i] == '\n';
    }
    return wf_tpl_take_text(r, &text);
}

static struct wf_tpl_value filter_tojson(struct wf_tpl_run *r, struct wf_tpl_value x,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value indent = wf_tpl_arg(args, 0, "indent");
    struct wf_text text = {0};
    for (size_t i = 0; i < args->n; i++)
        if (args->names[i].len > 0 && !wf_tpl_is(args->names[i], "indent") &&
            !(wf_tpl_is(args->names[i], "ensure_ascii") && !wf_tpl_truth(args->at[i])))
            return wf_tpl_raise(r, line, "tojson: the argument '%.*s' is not supported",
                                (int)args->names[i].len, args->names[i].at);
    if (indent.kind == WF_TPL_INT && (indent.i < 0 || indent.i > 100))
        return wf_tpl_raise(r, line, "tojson: the indentation is out of range");
    wf_tpl_print_json(r, &text, x, indent.kind == WF_TPL_INT ? indent.i : -1, 0, line);
    return wf_tpl_take_text(r, &text);
}

/* -- filters of numbers -------------------------------------------------------------------- */

static struct wf_tpl_value filter_int(struct wf_tpl_run *r, struct wf_tpl_value x,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value other = wf_tpl_arg(args, 0, "default");
    int64_t fallback = other.kind == WF_TPL_INT ? other.i : 0;
    (void)line;
    if (x.kind == WF_TPL_INT)
        return x;
    if (wf_tpl_is_number(x) && wf_tpl_number(x) > -1e18 && wf_tpl_number(x) < 1e18)
        return wf_tpl_int((int64_t)wf_tpl_number(x));
    if (x.kind != WF_TPL_STRING || x.s.len > 40)
        return wf_tpl_int(fallback);

    char text[48], *end;
    struct wf_tpl_string s = wf_tpl_strip(x.s, NULL, true, true).s;
    snprintf(text, sizeof text, "%.*s", (int)s.len, s.at);
    errno = 0;
    int64_t i = strtoll(text, &end, 10);
    (void)r;
    return wf_tpl_int(end == text || *end != '\0' || errno != 0 ? fallback : i);
}

static struct wf_tpl_value filter_abs(struct wf_tpl_run *r, struct wf_tpl_value x,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    if (x.kind == WF_TPL_FLOAT)
        return (struct wf_tpl_value){.kind = WF_TPL_FLOAT, .f = x.f < 0 ? -x.f : x.f};
    if (x.kind != WF_TPL_INT || x.i == INT64_MIN)
        return wf_tpl_raise(r, line, "abs of %s is not possible", wf_tpl_type(x));
    return wf_tpl_int(x.i < 0 ? -x.i : x.i);
}

/* -- filters of lists and dictionaries ----------------------------------------------------- */

static struct wf_tpl_value filter_length(struct wf_tpl_run *r, struct wf_tpl_value x,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    if (x.kind == WF_TPL_STRING)
        return wf_tpl_int((int64_t)wf_tpl_n_chars(x.s));
    return wf_tpl_int((int64_t)wf_tpl_items(r, x, line)->n);
}

static struct wf_tpl_value filter_default(struct wf_tpl_run *r, struct wf_tpl_value x,
                                          const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value other = wf_tpl_arg(args, 0, "default_value");
    bool falsy = wf_tpl_truth(wf_tpl_arg(args, 1, "boolean")) && !wf_tpl_truth(x);
    (void)r;
    (void)line;
    if (x.kind != WF_TPL_UNDEFINED && !falsy)
        return x;
    return other.kind == WF_TPL_UNDEFINED ? wf_tpl_string("", 0) : other;
}

static struct wf_tpl_value filter_join(struct wf_tpl_run *r, struct wf_tpl_value x,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value by = wf_tpl_arg(args, 0, "d");
    struct wf_tpl_value attribute = wf_tpl_arg(args, 1, "attribute");
    const struct wf_tpl_list *items = wf_tpl_items(r, x, line);
    struct wf_text text = {0};
    for (size_t i = 0; i < items->n && r->status == WEFT_OK; i++) {
        struct wf_tpl_value v = items->at[i];
        if (attribute.kind == WF_TPL_STRING)
            v = wf_tpl_element(r, v, attribute, line);
        if (i > 0)
            wf_tpl_print(r, &text, by);
        wf_tpl_print(r, &text, v);
    }
    return wf_tpl_take_text(r, &text);
}

static struct wf_tpl_value filter_first(struct wf_tpl_run *r, struct wf_tpl_value x,
                                        const struct wf_tpl_args *args, uint32_t line)
{
    const struct wf_tpl_list *items = wf_tpl_items(r, x, line);
    (void)args;
    return items->n > 0 ? items->at[0]
                        : wf_tpl_undefined((struct wf_tpl_string){"the first item", 14});
}

static struct wf_tpl_value filter_last(struct wf_tpl_run *r, struct wf_tpl_value x,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    const struct wf_tpl_list *items = wf_tpl_items(r, x, line);
    (void)args;
    return items->n > 0 ? items->at[items->n - 1]
                        : wf_tpl_undefined((struct wf_tpl_string){"the last item", 13});
}

static struct wf_tpl_value filter_list(struct wf_tpl_run *r, struct wf_tpl_value x,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    return (struct wf_tpl_value){.kind = WF_TPL_LIST, .list = wf_tpl_items(r, x, line)};
}

static struct wf_tpl_value filter_reverse(struct wf_tpl_run *r, struct wf_tpl_value x,
                                          const struct wf_tpl_args *args, uint32_t line)
{
    const struct wf_tpl_list *items = wf_tpl_items(r, x, line);
    struct wf_tpl_value out = wf_tpl_new_list(r);
    struct wf_text text = {0};
    (void)args;
    for (size_t i = items->n; i > 0 && r->status == WEFT_OK; i--) {
        if (x.kind == WF_TPL_STRING)
            wf_tpl_print(r, &text, items->at[i - 1]);
        else
            wf_tpl_push(r, out.list, items->at[i - 1]);
    }
    return x.kind == WF_TPL_STRING ? wf_tpl_take_text(r, &text) : out;
}

static struct wf_tpl_value filter_items(struct wf_tpl_run *r, struct wf_tpl_value x,
                                        const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value out = wf_tpl_new_list(r);
    (void)args;
    if (x.kind == WF_TPL_UNDEFINED)
        return out;
    if (x.kind != WF_TPL_DICT)
        return wf_tpl_raise(r, line, "%s has no items", wf_tpl_type(x));
    for (size_t i = 0; i < x.dict->n && r->status == WEFT_OK; i++) {
        struct wf_tpl_value pair = wf_tpl_new_list(r);
        wf_tpl_push(r, pair.list, x.dict->keys[i]);
        wf_tpl_push(r, pair.list, x.dict->values[i]);
        wf_tpl_push(r, out.list, pair);
    }
    return out;
}

/* Sorts pairs of a dictionary by key.  Insertion sort is stable, and the lists are short. */
static struct wf_tpl_value filter_dictsort(struct wf_tpl_run *r, struct wf_tpl_value x,
                                           const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value out = filter_items(r, x, args, line);
    if (args->n > 0)
        return wf_tpl_raise(r, line, "dictsort: arguments are not supported");
    if (r->status != WEFT_OK)
        return out;
    for (size_t i = 1; i < out.list->n && r->status == WEFT_OK; i++) {
        struct wf_tpl_value pair = out.list->at[i];
        size_t k = i;
        for (; k > 0; k--) {
            struct wf_tpl_value a = filter_lower(r, out.list->at[k - 1].list->at[0], args, 0);
            struct wf_tpl_value b = filter_lower(r, pair.list->at[0], args, 0);
            if (wf_tpl_compare(r, a, b, line) <= 0)
                break;
            out.list->at[k] = out.list->at[k - 1];
        }
        out.list->at[k] = pair;
        r->steps += k;
    }
    return out;
}

/* Returns the arguments after the first `n`, for the test or filter that they belong to. */
static struct wf_tpl_args rest_of(const struct wf_tpl_args *args, size_t n)
{
    struct wf_tpl_args out = {0};
    for (size_t i = n; i < args->n; i++) {
        out.at[out.n] = args->at[i];
        out.names[out.n++] = args->names[i];
    }
    return out;
}

static struct wf_tpl_value choose(struct wf_tpl_run *r, struct wf_tpl_value x,
                                  const struct wf_tpl_args *args, bool by_attribute, bool keep,
                                  uint32_t line)
{
    struct wf_tpl_value out = wf_tpl_new_list(r);
    struct wf_tpl_value attribute = wf_tpl_arg(args, 0, "attribute");
    struct wf_tpl_value test = wf_tpl_arg(args, by_attribute, "test");
    struct wf_tpl_args more = rest_of(args, (size_t)by_attribute + 1);
    const struct wf_tpl_list *items = wf_tpl_items(r, x, line);
    if ((by_attribute && attribute.kind != WF_TPL_STRING) ||
        (test.kind == WF_TPL_STRING && !wf_tpl_has_test(test.s)))
        return wf_tpl_raise(r, line, "the attribute or the test is not supported");
    for (size_t i = 0; i < items->n && r->status == WEFT_OK; i++) {
        struct wf_tpl_value v = items->at[i];
        if (by_attribute)
            v = wf_tpl_element(r, v, attribute, line);
        bool holds = test.kind == WF_TPL_STRING ? wf_tpl_apply_test(r, test.s, v, &more, line)
                                                : wf_tpl_truth(v);
        if (holds == keep)
            wf_tpl_push(r, out.list, items->at[i]);
    }
    return out;
}

static struct wf_tpl_value filter_selectattr(struct wf_tpl_run *r, struct wf_tpl_value x,
                                             const struct wf_tpl_args *args, uint32_t line)
{
    return choose(r, x, args, true, true, line);
}

static struct wf_tpl_value filter_rejectattr(struct wf_tpl_run *r, struct wf_tpl_value x,
                                             const struct wf_tpl_args *args, uint32_t line)
{
    return choose(r, x, args, true, false, line);
}

static struct wf_tpl_value filter_select(struct wf_tpl_run *r, struct wf_tpl_value x,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    return choose(r, x, args, false, true, line);
}

static struct wf_tpl_value filter_reject(struct wf_tpl_run *r, struct wf_tpl_value x,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    return choose(r, x, args, false, false, line);
}

/* Takes an attribute of each item, or applies a filter to each. */
static struct wf_tpl_value filter_map(struct wf_tpl_run *r, struct wf_tpl_value x,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value out = wf_tpl_new_list(r);
    bool named = args->n > 0 && args->names[0].len > 0;
    struct wf_tpl_value what = wf_tpl_arg(args, 0, "attribute");
    struct wf_tpl_value other = wf_tpl_arg(args, SIZE_MAX, "default");
    struct wf_tpl_args more = rest_of(args, 1);
    const struct wf_tpl_list *items = wf_tpl_items(r, x, line);
    if (what.kind != WF_TPL_STRING || (!named && !wf_tpl_has_filter(what.s)))
        return wf_tpl_raise(r, line, "map: the attribute or the filter is not supported");
    for (size_t i = 0; i < items->n && r->status == WEFT_OK; i++) {
        struct wf_tpl_value v = named
                                    ? wf_tpl_element(r, items->at[i], what, line)
                                    : wf_tpl_apply_filter(r, what.s, items->at[i], &more, line);
        wf_tpl_push(r, out.list, v.kind == WF_TPL_UNDEFINED ? other : v);
    }
    return out;
}

static const struct {
    const char *name;
    filter_fn *apply;
} filters[] = {
    {"abs", filter_abs},
    {"capitalize", filter_capitalize},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"indent", filter_indent},
    {"int", filter_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", filter_lower},
    {"map", filter_map},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"replace", filter_replace},
    {"reverse", filter_reverse},
    {"safe", filter_safe},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"string", filter_string},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"upper", filter_upper},
};

bool wf_tpl_has_filter(struct wf_tpl_string name)
{
    for (size_t i = 0; i < WEFT_LEN(filters); i++)
        if (wf_tpl_is(name, filters[i].name))
            return true;
    return false;
}

struct wf_tpl_value wf_tpl_apply_filter(struct wf_tpl_run *r, struct wf_tpl_string name,
                                        struct wf_tpl_value x, const struct wf_tpl_args *args,
                                        uint32_t line)
{
    if (r->status != WEFT_OK)
        return x;
    for (size_t i = 0; i < WEFT_LEN(filters); i++)
        if (wf_tpl_is(name, filters[i].name))
            return filters[i].apply(r, x, args, line);
    return wf_tpl_raise(r, line, "the filter '%.*s' is not supported", (int)name.len, name.at);
}

/* -- tests --------------------------------------------------------------------------------- */

enum test_code {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_STRING,
    TEST_MAPPING,
    TEST_SEQUENCE,
    TEST_ITERABLE,
    TEST_NUMBER,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_BOOLEAN,
    TEST_TRUE,
    TEST_FALSE,
    TEST_CALLABLE,
    TEST_ODD,
    TEST_EVEN,
    TEST_DIVISIBLE,
    TEST_EQUAL,
    TEST_UNEQUAL,
    TEST_IN,
};

static const struct {
    const char *name;
    enum test_code code;
} tests[] = {
    {"defined", TEST_DEFINED},
    {"undefined", TEST_UNDEFINED},
    {"none", TEST_NONE},
    {"string", TEST_STRING},
    {"mapping", TEST_MAPPING},
    {"sequence", TEST_SEQUENCE},
    {"iterable", TEST_ITERABLE},
    {"number", TEST_NUMBER},
    {"integer", TEST_INTEGER},
    {"float", TEST_FLOAT},
    {"boolean", TEST_BOOLEAN},
    {"true", TEST_TRUE},
    {"false", TEST_FALSE},
    {"callable", TEST_CALLABLE},
    {"odd", TEST_ODD},
    {"even", TEST_EVEN},
    {"divisibleby", TEST_DIVISIBLE},
    {"equalto", TEST_EQUAL},
    {"eq", TEST_EQUAL},
    {"ne", TEST_UNEQUAL},
    {"in", TEST_IN},
    {"==", TEST_EQUAL},
    {"!=", TEST_UNEQUAL},
};

bool wf_tpl_has_test(struct wf_tpl_string name)
{
    for (size_t i = 0; i < WEFT_LEN(tests); i++)
        if (wf_tpl_is(name, tests[i].name))
            return true;
    return false;
}

static bool is_divisible(struct wf_tpl_run *r, struct wf_tpl_value x, int64_t by, uint32_t line)
{
    if (x.kind != WF_TPL_INT || by == 0) {
        wf_tpl_raise(r, line, "the test needs whole numbers, not %s", wf_tpl_type(x));
        return false;
    }
    return by == -1 || x.i % by == 0;
}

static bool is_one_of(struct wf_tpl_run *r, struct wf_tpl_value x, struct wf_tpl_value in,
                      uint32_t line)
{
    const struct wf_tpl_list *items = wf_tpl_items(r, in, line);
    for (size_t i = 0; i < items->n; i++)
        if (wf_tpl_equal(items->at[i], x))
            return true;
    return false;
}

bool wf_tpl_apply_test(struct wf_tpl_run *r, struct wf_tpl_string name, struct wf_tpl_value x,
                       const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value a = wf_tpl_arg(args, 0, "other");
    enum wf_tpl_kind k = x.kind;
    size_t i = 0;
    while (i < WEFT_LEN(tests) && !wf_tpl_is(name, tests[i].name))
        i++;
    if (i == WEFT_LEN(tests)) {
        wf_tpl_raise(r, line, "the test '%.*s' is not supported", (int)name.len, name.at);
        return false;
    }

    switch (tests[i].code) {
    case TEST_DEFINED:
        return k != WF_TPL_UNDEFINED;
    case TEST_UNDEFINED:
        return k == WF_TPL_UNDEFINED;
    case TEST_NONE:
        return k == WF_TPL_NONE;
    case TEST_STRING:
        return k == WF_TPL_STRING;
    case TEST_MAPPING:
        return k == WF_TPL_DICT && !x.dict->is_namespace;
    case TEST_SEQUENCE:
        return k == WF_TPL_STRING || k == WF_TPL_LIST ||
               (k == WF_TPL_DICT && !x.dict->is_namespace) || k == WF_TPL_UNDEFINED;
    case TEST_ITERABLE:
        return k == WF_TPL_STRING || k == WF_TPL_LIST || k == WF_TPL_UNDEFINED ||
               (k == WF_TPL_DICT && !x.dict->is_namespace);
    case TEST_NUMBER:
        return wf_tpl_is_number(x);
    case TEST_INTEGER:
        return k == WF_TPL_INT;
    case TEST_FLOAT:
        return k == WF_TPL_FLOAT;
    case TEST_BOOLEAN:
        return k == WF_TPL_BOOL;
    case TEST_TRUE:
        return k == WF_TPL_BOOL && x.b;
    case TEST_FALSE:
        return k == WF_TPL_BOOL && !x.b;
    case TEST_CALLABLE:
        return k == WF_TPL_FUNCTION || k == WF_TPL_METHOD || k == WF_TPL_MACRO;
    case TEST_ODD:
        return !is_divisible(r, x, 2, line);
    case TEST_EVEN:
        return is_divisible(r, x, 2, line);
    case TEST_DIVISIBLE:
        return is_divisible(r, x, a.kind == WF_TPL_INT ? a.i : 0, line);
    case TEST_EQUAL:
        return wf_tpl_equal(x, a);
    case TEST_UNEQUAL:
        return !wf_tpl_equal(x, a);
    case TEST_IN:
        return is_one_of(r, x, a, line);
    }
    return false;
}
