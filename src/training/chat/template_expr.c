/* Parses the expressions of templates, with the precedence of Jinja. */
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

static struct wf_tpl_node *parse_unary(struct wf_tpl_parser *p, bool with_filters);
static struct wf_tpl_node *parse_or(struct wf_tpl_parser *p);

struct wf_tpl_node *wf_tpl_node_new(struct wf_tpl_parser *p, enum wf_tpl_op op)
{
    struct wf_tpl_node *node = wf_tpl_alloc(&p->t->arena, sizeof *node);
    if (node == NULL) {
        wf_tpl_fail(p, p->line, "no memory");
        node = &p->spare;
    }
    *node = (struct wf_tpl_node){.op = op, .line = p->token.line};
    return node;
}

static struct wf_tpl_node *make(struct wf_tpl_parser *p, enum wf_tpl_op op,
                                struct wf_tpl_node *a, struct wf_tpl_node *b)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, op);
    node->a = a;
    node->b = b;
    return node;
}

/* Counts the nesting.  Returns false, with an error, if it is too deep. */
static bool enter(struct wf_tpl_parser *p)
{
    if (++p->depth > WF_TPL_MAX_DEPTH)
        wf_tpl_fail(p, p->line, "nested deeper than %d levels", WF_TPL_MAX_DEPTH);
    return p->status == WEFT_OK;
}

struct wf_tpl_node *wf_tpl_parse_name(struct wf_tpl_parser *p, enum wf_tpl_op op)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, op);
    node->value = wf_tpl_string(p->token.text.at, p->token.text.len);
    if (p->token.kind != WF_TPL_TOKEN_NAME)
        wf_tpl_fail(p, p->token.line, "expected a name");
    else
        wf_tpl_next(p);
    return node;
}

/* Parses arguments up to the closing bracket. */
static struct wf_tpl_node *parse_args(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *first = NULL, **last = &first;
    size_t n = 0;

    while (p->status == WEFT_OK && !wf_tpl_token_is(p, ")")) {
        struct wf_tpl_node *arg = wf_tpl_node_new(p, WF_TPL_ARG);
        if (wf_tpl_token_is(p, "*") || wf_tpl_token_is(p, "**"))
            wf_tpl_fail(p, p->line, "lists of arguments (*) are not supported");
        arg->a = wf_tpl_parse_expression(p, true);
        if (arg->a->op == WF_TPL_NAME && wf_tpl_accept(p, "=")) {
            arg->value = arg->a->value;
            arg->a = wf_tpl_parse_expression(p, true);
        }
        *last = arg;
        last = &arg->next;
        if (++n > WF_TPL_MAX_ARGS)
            wf_tpl_fail(p, p->line, "more than %d arguments", WF_TPL_MAX_ARGS);
        if (!wf_tpl_accept(p, ","))
            break;
    }
    wf_tpl_expect(p, ")");
    return first;
}

/* Parses a[...] after its bracket: an index or a slice. */
static struct wf_tpl_node *parse_item(struct wf_tpl_parser *p, struct wf_tpl_node *of)
{
    struct wf_tpl_node *parts[3] = {NULL, NULL, NULL};
    size_t n = 0;
    bool slice = false;
    while (p->status == WEFT_OK && !wf_tpl_token_is(p, "]") && n < 3) {
        if (!wf_tpl_token_is(p, ":"))
            parts[n] = wf_tpl_parse_expression(p, true);
        if (!wf_tpl_accept(p, ":"))
            break;
        slice = true;
        n++;
    }
    wf_tpl_expect(p, "]");

    struct wf_tpl_node *node = make(p, slice ? WF_TPL_SLICE : WF_TPL_ITEM, of, parts[0]);
    node->c = parts[1];
    node->d = parts[2];
    if (!slice && parts[0] == NULL)
        wf_tpl_fail(p, p->line, "expected an index within []");
    return node;
}

/* Parses .name, [index] and calls after a value. */
static struct wf_tpl_node *parse_postfix(struct wf_tpl_parser *p, struct wf_tpl_node *node)
{
    while (p->status == WEFT_OK) {
        if (wf_tpl_accept(p, ".")) {
            struct wf_tpl_node *attribute = NULL;
            if (p->token.kind == WF_TPL_TOKEN_INT) {
                attribute = make(p, WF_TPL_ITEM, node, wf_tpl_node_new(p, WF_TPL_LITERAL));
                attribute->b->value = p->token.value;
                wf_tpl_next(p);
            } else {
                attribute = wf_tpl_parse_name(p, WF_TPL_ATTRIBUTE);
                attribute->a = node;
            }
            node = attribute;
        } else if (wf_tpl_accept(p, "[")) {
            node = parse_item(p, node);
        } else if (wf_tpl_accept(p, "(")) {
            node = make(p, WF_TPL_CALL, node, NULL);
            node->list = parse_args(p);
        } else {
            break;
        }
    }

    return node;
}

static struct wf_tpl_node *parse_dict(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_MAKE_DICT), **last = &node->list;
    while (p->status == WEFT_OK && !wf_tpl_token_is(p, "}")) {
        struct wf_tpl_node *entry = wf_tpl_node_new(p, WF_TPL_ARG);
        entry->a = wf_tpl_parse_expression(p, true);
        wf_tpl_expect(p, ":");
        entry->b = wf_tpl_parse_expression(p, true);
        *last = entry;
        last = &entry->next;
        if (!wf_tpl_accept(p, ","))
            break;
    }
    wf_tpl_expect(p, "}");
    return node;
}

/* Parses the elements of a list up to `close`.  `first`, if not NULL, is the first element. */
static struct wf_tpl_node *parse_elements(struct wf_tpl_parser *p, struct wf_tpl_node *first,
                                          const char *close, bool with_choice)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_MAKE_LIST), **last = &node->list;
    for (;;) {
        if (first == NULL) {
            if (p->status != WEFT_OK || p->token.kind == WF_TPL_TOKEN_END ||
                (close != NULL && wf_tpl_token_is(p, close)) || wf_tpl_token_is(p, "=") ||
                wf_tpl_token_is(p, "in"))
                break;
            first = wf_tpl_parse_expression(p, with_choice);
        }
        /* A node is in one list only, so an element has a node of its own. */
        struct wf_tpl_node *element = wf_tpl_node_new(p, WF_TPL_ARG);
        element->a = first;
        *last = element;
        last = &element->next;
        first = NULL;
        if (!wf_tpl_accept(p, ","))
            break;
    }

    if (close != NULL)
        wf_tpl_expect(p, close);
    return node;
}

static struct wf_tpl_node *parse_literal(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_LITERAL);
    if (p->token.kind != WF_TPL_TOKEN_STRING) {
        node->value = p->token.value;
        wf_tpl_next(p);
        return node;
    }
    node->value = wf_tpl_string(p->token.text.at, p->token.text.len);
    wf_tpl_next(p);

    while (p->token.kind == WF_TPL_TOKEN_STRING) { /* strings in a row are one string */
        size_t n = node->value.s.len, more = p->token.text.len;
        char *joined = wf_tpl_alloc(&p->t->arena, n + more + 1);
        if (joined == NULL) {
            wf_tpl_fail(p, p->line, "no memory");
            break;
        }
        memcpy(joined, node->value.s.at, n);
        memcpy(joined + n, p->token.text.at, more);
        node->value = wf_tpl_string(joined, n + more);
        wf_tpl_next(p);
    }
    return node;
}

static struct wf_tpl_node *parse_word(struct wf_tpl_parser *p)
{
    static const struct {
        const char *name;
        enum wf_tpl_kind kind;
        bool b;
    } constants[] = {
        {"true", WF_TPL_BOOL, true},   {"True", WF_TPL_BOOL, true},
        {"false", WF_TPL_BOOL, false}, {"False", WF_TPL_BOOL, false},
        {"none", WF_TPL_NONE, false},  {"None", WF_TPL_NONE, false},
    };
    for (size_t i = 0; i < WEFT_LEN(constants); i++)
        if (wf_tpl_token_is(p, constants[i].name)) {
            struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_LITERAL);
            node->value.kind = constants[i].kind;
            node->value.b = constants[i].b;
            wf_tpl_next(p);
            return node;
        }
    return wf_tpl_parse_name(p, WF_TPL_NAME);
}

static struct wf_tpl_node *parse_primary(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node;
    if (p->token.kind == WF_TPL_TOKEN_NAME)
        return parse_word(p);
    if (p->token.kind != WF_TPL_TOKEN_OPERATOR && p->token.kind != WF_TPL_TOKEN_END)
        return parse_literal(p);
    if (wf_tpl_accept(p, "(")) {
        if (wf_tpl_token_is(p, ")"))
            return parse_elements(p, NULL, ")", true);
        node = wf_tpl_parse_expression(p, true);
        if (wf_tpl_token_is(p, ",")) {
            wf_tpl_next(p);
            struct wf_tpl_node *rest = parse_elements(p, NULL, ")", true);
            struct wf_tpl_node *element = wf_tpl_node_new(p, WF_TPL_ARG);
            element->a = node;
            element->next = rest->list;
            rest->list = element;
            return rest;
        }
        wf_tpl_expect(p, ")");
        return node;
    }

    if (wf_tpl_accept(p, "["))
        return parse_elements(p, NULL, "]", true);
    if (wf_tpl_accept(p, "{"))
        return parse_dict(p);
    if (p->token.kind == WF_TPL_TOKEN_END)
        wf_tpl_fail(p, p->token.line, "expected an expression before the end of the tag");
    else
        wf_tpl_fail(p, p->token.line, "unexpected '%.*s'", (int)p->token.text.len,
                    p->token.text.at);
    return wf_tpl_node_new(p, WF_TPL_LITERAL);
}

/* Parses the argument of a test that has no brackets: x is divisibleby 3. */
static bool starts_argument(const struct wf_tpl_parser *p)
{
    static const char *const words[] = {"else", "or", "and", "if", "is", "in", "not"};
    if (p->token.kind == WF_TPL_TOKEN_OPERATOR)
        return wf_tpl_token_is(p, "[") || wf_tpl_token_is(p, "{");
    for (size_t i = 0; i < WEFT_LEN(words); i++)
        if (wf_tpl_token_is(p, words[i]))
            return false;
    return p->token.kind != WF_TPL_TOKEN_END;
}

static struct wf_tpl_node *parse_test(struct wf_tpl_parser *p, struct wf_tpl_node *of)
{
    bool negated = wf_tpl_accept(p, "not");
    struct wf_tpl_node *test = NULL;
    if (wf_tpl_token_is(p, "in")) {
        test = wf_tpl_parse_name(p, WF_TPL_TEST);
    } else {
        test = wf_tpl_parse_name(p, WF_TPL_TEST);
        if (p->status == WEFT_OK && !wf_tpl_has_test(test->value.s))
            wf_tpl_fail(p, test->line, "the test '%.*s' is not supported",
                        (int)test->value.s.len, test->value.s.at);
    }
    test->a = of;
    if (wf_tpl_accept(p, "(")) {
        test->list = parse_args(p);
    } else if (starts_argument(p)) {
        test->list = wf_tpl_node_new(p, WF_TPL_ARG);
        test->list->a = parse_postfix(p, parse_primary(p));
    }
    return negated ? make(p, WF_TPL_NOT, test, NULL) : test;
}

static struct wf_tpl_node *parse_filters(struct wf_tpl_parser *p, struct wf_tpl_node *node)
{
    while (p->status == WEFT_OK) {
        if (wf_tpl_accept(p, "|")) {
            struct wf_tpl_node *filter = wf_tpl_parse_name(p, WF_TPL_FILTER);
            if (p->status == WEFT_OK && !wf_tpl_has_filter(filter->value.s))
                wf_tpl_fail(p, filter->line, "the filter '%.*s' is not supported",
                            (int)filter->value.s.len, filter->value.s.at);
            filter->a = node;
            if (wf_tpl_accept(p, "("))
                filter->list = parse_args(p);
            node = filter;
        } else if (wf_tpl_accept(p, "is")) {
            node = parse_test(p, node);
        } else if (wf_tpl_token_is(p, "(") || wf_tpl_token_is(p, ".") ||
                   wf_tpl_token_is(p, "[")) {
            struct wf_tpl_node *after = parse_postfix(p, node);
            if (after == node)
                break;
            node = after;
        } else {
            break;
        }
    }

    return node;
}

static struct wf_tpl_node *parse_unary(struct wf_tpl_parser *p, bool with_filters)
{
    struct wf_tpl_node *node;
    if (!enter(p))
        return wf_tpl_node_new(p, WF_TPL_LITERAL);
    if (wf_tpl_accept(p, "-"))
        node = make(p, WF_TPL_NEGATE, parse_unary(p, false), NULL);
    else if (wf_tpl_accept(p, "+"))
        node = parse_unary(p, false);
    else
        node = parse_postfix(p, parse_primary(p));
    if (with_filters)
        node = parse_filters(p, node);
    if (wf_tpl_token_is(p, "**"))
        wf_tpl_fail(p, p->token.line, "the operator '**' is not supported");
    p->depth--;
    return node;
}

/* Operators of the same precedence; the lists are ordered from the lowest precedence. */
static const struct {
    const char *text;
    enum wf_tpl_operator code;
    int level;
} operators[] = {
    {"==", WF_TPL_EQ, 0},    {"!=", WF_TPL_NE, 0}, {"<=", WF_TPL_LE, 0},
    {">=", WF_TPL_GE, 0},    {"<", WF_TPL_LT, 0},  {">", WF_TPL_GT, 0},
    {"in", WF_TPL_IN, 0},    {"+", WF_TPL_ADD, 1}, {"-", WF_TPL_SUB, 1},
    {"~", WF_TPL_CONCAT, 2}, {"*", WF_TPL_MUL, 3}, {"//", WF_TPL_FLOOR_DIV, 3},
    {"/", WF_TPL_DIV, 3},    {"%", WF_TPL_MOD, 3},
};

static bool accept_operator(struct wf_tpl_parser *p, int level, enum wf_tpl_operator *code)
{
    for (size_t i = 0; i < WEFT_LEN(operators); i++)
        if (operators[i].level == level && wf_tpl_token_is(p, operators[i].text)) {
            *code = operators[i].code;
            wf_tpl_next(p);
            return true;
        }
    return false;
}

static struct wf_tpl_node *parse_math(struct wf_tpl_parser *p, int level)
{
    if (level > 3)
        return parse_unary(p, true);
    struct wf_tpl_node *node = parse_math(p, level + 1);
    enum wf_tpl_operator code;
    while (p->status == WEFT_OK && accept_operator(p, level, &code)) {
        node = make(p, WF_TPL_BINARY, node, NULL);
        node->code = code;
        node->b = parse_math(p, level + 1);
    }
    return node;
}

/* Parses comparisons.  "a < b < c" means "a < b and b < c". */
static struct wf_tpl_node *parse_compare(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *left = parse_math(p, 1), *node = NULL;

    while (p->status == WEFT_OK) {
        enum wf_tpl_operator code;
        bool negated = wf_tpl_token_is(p, "not");
        if (negated) {
            wf_tpl_next(p);
            wf_tpl_expect(p, "in");
            code = WF_TPL_IN;
        } else if (!accept_operator(p, 0, &code)) {
            break;
        }
        struct wf_tpl_node *right = parse_math(p, 1);
        struct wf_tpl_node *pair = make(p, WF_TPL_BINARY, left, right);
        pair->code = code;
        if (negated)
            pair = make(p, WF_TPL_NOT, pair, NULL);
        node = node == NULL ? pair : make(p, WF_TPL_AND, node, pair);
        left = right;
    }
    return node == NULL ? left : node;
}

static struct wf_tpl_node *parse_not(struct wf_tpl_parser *p)
{
    bool negated = false;
    uint32_t line = p->token.line;
    while (wf_tpl_accept(p, "not"))
        negated = !negated;
    struct wf_tpl_node *node = parse_compare(p);
    if (!negated)
        return node;
    node = make(p, WF_TPL_NOT, node, NULL);
    node->line = line;
    return node;
}

static struct wf_tpl_node *parse_and(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = parse_not(p);
    while (p->status == WEFT_OK && wf_tpl_accept(p, "and"))
        node = make(p, WF_TPL_AND, node, parse_not(p));
    return node;
}

static struct wf_tpl_node *parse_or(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = parse_and(p);
    while (p->status == WEFT_OK && wf_tpl_accept(p, "or"))
        node = make(p, WF_TPL_OR, node, parse_and(p));
    return node;
}

struct wf_tpl_node *wf_tpl_parse_expression(struct wf_tpl_parser *p, bool with_choice)
{
    if (!enter(p))
        return wf_tpl_node_new(p, WF_TPL_LITERAL);
    struct wf_tpl_node *node = parse_or(p);
    while (with_choice && p->status == WEFT_OK && wf_tpl_accept(p, "if")) {
        node = make(p, WF_TPL_CHOICE, node, NULL);
        node->b = parse_or(p);
        if (wf_tpl_accept(p, "else"))
            node->c = wf_tpl_parse_expression(p, true);
    }
    p->depth--;
    return node;
}

struct wf_tpl_node *wf_tpl_parse_tuple(struct wf_tpl_parser *p, bool with_choice)
{
    struct wf_tpl_node *first = wf_tpl_parse_expression(p, with_choice);
    if (!wf_tpl_accept(p, ","))
        return first;
    struct wf_tpl_node *rest = parse_elements(p, NULL, NULL, with_choice);
    struct wf_tpl_node *element = wf_tpl_node_new(p, WF_TPL_ARG);
    element->a = first;
    element->next = rest->list;
    rest->list = element;
    return rest;
}

struct wf_tpl_node *wf_tpl_parse_target(struct wf_tpl_parser *p, bool with_attribute)
{
    bool bracket = wf_tpl_accept(p, "(");
    struct wf_tpl_node *first = wf_tpl_parse_name(p, WF_TPL_NAME);
    if (with_attribute && wf_tpl_accept(p, ".")) {
        struct wf_tpl_node *attribute = wf_tpl_parse_name(p, WF_TPL_ATTRIBUTE);
        attribute->a = first;
        return attribute;
    }

    if (wf_tpl_token_is(p, ",")) {
        struct wf_tpl_node *list = wf_tpl_node_new(p, WF_TPL_MAKE_LIST), **last = &list->list;
        do {
            if (first == NULL)
                first = wf_tpl_parse_name(p, WF_TPL_NAME);
            *last = first;
            last = &first->next;
            first = NULL;
        } while (p->status == WEFT_OK && wf_tpl_accept(p, ","));
        first = list;
    }
    if (bracket)
        wf_tpl_expect(p, ")");
    return first;
}
