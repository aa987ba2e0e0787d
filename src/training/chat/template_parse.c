/* Parses the statements of templates. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

static struct wf_tpl_node *parse_body(struct wf_tpl_parser *p, const char *const *ends);

/* Ends of blocks.  The names that may follow a part of a block. */
static const char *const end_if[] = {"elif", "else", "endif", NULL};
static const char *const end_else[] = {"endif", NULL};
static const char *const end_for[] = {"else", "endfor", NULL};
static const char *const end_for_else[] = {"endfor", NULL};
static const char *const end_set[] = {"endset", NULL};
static const char *const end_macro[] = {"endmacro", NULL};
static const char *const end_generation[] = {"endgeneration", NULL};

/* Expects the end of a tag.  The text after it is not read yet. */
static void expect_end(struct wf_tpl_parser *p)
{
    if (p->token.kind != WF_TPL_TOKEN_END)
        wf_tpl_fail(p, p->token.line, "unexpected '%.*s' in the tag",
                    (int)(p->token.text.len < 40 ? p->token.text.len : 40), p->token.text.at);
}

/* Parses the branches after the word if or elif. */
static struct wf_tpl_node *parse_if(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *first = NULL, **last = &first;
    bool more = true;
    while (more && p->status == WEFT_OK) {
        struct wf_tpl_node *branch = wf_tpl_node_new(p, WF_TPL_IF);
        branch->a = wf_tpl_parse_tuple(p, true);
        expect_end(p);
        branch->list = parse_body(p, end_if);
        *last = branch;
        last = &branch->b;
        more = wf_tpl_accept(p, "elif");
    }

    if (wf_tpl_accept(p, "else")) {
        expect_end(p);
        *last = wf_tpl_node_new(p, WF_TPL_BODY);
        struct wf_tpl_node *other = *last;
        other->list = parse_body(p, end_else);
    }
    wf_tpl_expect(p, "endif");
    expect_end(p);
    return first == NULL ? wf_tpl_node_new(p, WF_TPL_BODY) : first;
}

static struct wf_tpl_node *parse_for(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_FOR);
    node->a = wf_tpl_parse_target(p, false);
    wf_tpl_expect(p, "in");
    node->b = wf_tpl_parse_tuple(p, false);
    if (wf_tpl_accept(p, "if"))
        node->c = wf_tpl_parse_expression(p, true);
    if (wf_tpl_token_is(p, "recursive"))
        wf_tpl_fail(p, p->token.line, "recursive loops are not supported");
    expect_end(p);

    p->n_loops++;
    node->list = parse_body(p, end_for);
    p->n_loops--;
    if (wf_tpl_accept(p, "else")) {
        expect_end(p);
        node->d = wf_tpl_node_new(p, WF_TPL_BODY);
        node->d->list = parse_body(p, end_for_else);
    }
    wf_tpl_expect(p, "endfor");
    expect_end(p);
    return node;
}

static struct wf_tpl_node *parse_set(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_SET);
    node->a = wf_tpl_parse_target(p, true);
    if (wf_tpl_accept(p, "=")) {
        node->b = wf_tpl_parse_tuple(p, true);
        expect_end(p);
        return node;
    }
    node->op = WF_TPL_SET_BLOCK;
    if (wf_tpl_token_is(p, "|"))
        wf_tpl_fail(p, p->token.line, "filters of set blocks are not supported");
    expect_end(p);
    node->list = parse_body(p, end_set);
    wf_tpl_expect(p, "endset");
    expect_end(p);
    return node;
}

static struct wf_tpl_node *parse_macro(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = wf_tpl_parse_name(p, WF_TPL_MACRO_DEF), **last = &node->a;
    size_t n = 0;
    wf_tpl_expect(p, "(");
    while (p->status == WEFT_OK && !wf_tpl_token_is(p, ")")) {
        struct wf_tpl_node *name = wf_tpl_parse_name(p, WF_TPL_ARG);
        if (wf_tpl_accept(p, "="))
            name->a = wf_tpl_parse_expression(p, true);
        *last = name;
        last = &name->next;
        if (++n > WF_TPL_MAX_ARGS)
            wf_tpl_fail(p, p->line, "more than %d parameters", WF_TPL_MAX_ARGS);
        if (!wf_tpl_accept(p, ","))
            break;
    }
    wf_tpl_expect(p, ")");
    expect_end(p);

    size_t loops = p->n_loops;
    p->n_loops = 0;
    node->list = parse_body(p, end_macro);
    p->n_loops = loops;
    wf_tpl_expect(p, "endmacro");
    expect_end(p);
    return node;
}

static struct wf_tpl_node *parse_generation(struct wf_tpl_parser *p)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_GENERATION);
    expect_end(p);
    p->t->marks_generation = true;
    node->list = parse_body(p, end_generation);
    wf_tpl_expect(p, "endgeneration");
    expect_end(p);
    return node;
}

/* Parses a statement, whose name is the current token. */
static struct wf_tpl_node *parse_statement(struct wf_tpl_parser *p)
{
    struct wf_tpl_token word = p->token;
    bool jump = wf_tpl_token_is(p, "break") || wf_tpl_token_is(p, "continue");
    if (wf_tpl_accept(p, "if"))
        return parse_if(p);
    if (wf_tpl_accept(p, "for"))
        return parse_for(p);
    if (wf_tpl_accept(p, "set"))
        return parse_set(p);
    if (wf_tpl_accept(p, "macro"))
        return parse_macro(p);
    if (wf_tpl_accept(p, "generation"))
        return parse_generation(p);

    if (jump) {
        struct wf_tpl_node *node =
            wf_tpl_node_new(p, wf_tpl_token_is(p, "break") ? WF_TPL_BREAK : WF_TPL_CONTINUE);
        if (p->n_loops == 0)
            wf_tpl_fail(p, word.line, "'%.*s' outside of a loop", (int)word.text.len,
                        word.text.at);
        wf_tpl_next(p);
        expect_end(p);
        return node;
    }
    if (word.kind == WF_TPL_TOKEN_NAME)
        wf_tpl_fail(p, word.line, "the statement '%.*s' is not supported here",
                    (int)(word.text.len < 40 ? word.text.len : 40), word.text.at);
    else
        wf_tpl_fail(p, word.line, "expected a statement");
    return wf_tpl_node_new(p, WF_TPL_BODY);
}

static bool is_one_of(const struct wf_tpl_parser *p, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++)
        if (wf_tpl_token_is(p, *names))
            return true;
    return false;
}

static struct wf_tpl_node *add_text(struct wf_tpl_parser *p, struct wf_tpl_string text)
{
    struct wf_tpl_node *node = wf_tpl_node_new(p, WF_TPL_TEXT);
    node->value = wf_tpl_string(text.at, text.len);
    return node;
}

/* Parses text and tags up to a statement of `ends`, which is then the current token, or up to
 * the end of the source if `ends` is NULL. */
static struct wf_tpl_node *parse_body(struct wf_tpl_parser *p, const char *const *ends)
{
    struct wf_tpl_node *first = NULL, **last = &first;
    uint32_t begin = p->token.line;
    if (++p->depth > WF_TPL_MAX_DEPTH)
        wf_tpl_fail(p, p->line, "nested deeper than %d levels", WF_TPL_MAX_DEPTH);
    while (p->status == WEFT_OK) {
        struct wf_tpl_string text;
        struct wf_tpl_node *node = NULL;
        char tag;
        wf_tpl_read_text(p, &text, &tag);
        if (text.len > 0) {
            *last = add_text(p, text);
            last = &(*last)->next;
        }
        if (tag == '\0') {
            if (ends != NULL)
                wf_tpl_fail(p, begin, "the block has no '%s'", ends[0]);
            break;
        }
        if (tag == '#') {
            wf_tpl_skip_comment(p);
            continue;
        }

        wf_tpl_next(p);
        if (tag == '%' && is_one_of(p, ends))
            break;
        if (tag == '%') {
            node = parse_statement(p);
        } else {
            node = wf_tpl_node_new(p, WF_TPL_PRINT);
            node->a = wf_tpl_parse_tuple(p, true);
            expect_end(p);
        }
        *last = node;
        last = &node->next;
    }
    p->depth--;
    return first;
}

/* Copies the source.  CR LF becomes LF, and one newline at the end is removed, as Jinja does.
 * */
static void copy_source(struct wf_tpl_parser *p, const char *text, size_t len)
{
    char *copy = wf_tpl_alloc(&p->t->arena, len + 1);
    size_t n = 0;
    if (copy == NULL) {
        wf_tpl_fail(p, 1, "no memory for the template");
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r') {
            copy[n++] = '\n';
            i += i + 1 < len && text[i + 1] == '\n';
        } else {
            copy[n++] = text[i];
        }
    }
    if (n > 0 && copy[n - 1] == '\n')
        n--;
    p->at = copy;
    p->end = copy + n;
}

enum weft_status wf_template_parse(const char *text, size_t len, const char *name,
                                   struct wf_template **out, struct weft_error *err)
{
    enum { MAX_SOURCE = 1 << 20 };
    struct wf_template *t = calloc(1, sizeof *t);
    if (t == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a template");
    t->name = name;
    struct wf_tpl_parser p = {.t = t, .line = 1, .line_starting = true, .err = err};
    p.token.line = 1;

    size_t n_name = strlen(name) + 1;
    char *copy = wf_tpl_alloc(&t->arena, n_name);
    if (copy == NULL) {
        wf_tpl_fail(&p, 1, "no memory for the template");
    } else {
        memcpy(copy, name, n_name);
        t->name = copy;
    }
    if (len > MAX_SOURCE || memchr(text, '\0', len) != NULL)
        wf_tpl_fail(&p, 1, "is not a template: it has a zero byte or more than %d bytes",
                    MAX_SOURCE);
    if (p.status == WEFT_OK)
        copy_source(&p, text, len);
    if (p.status == WEFT_OK)
        t->body = parse_body(&p, NULL);
    if (p.status != WEFT_OK) {
        wf_template_free(t);
        return p.status;
    }
    *out = t;
    return WEFT_OK;
}

void wf_template_free(struct wf_template *t)
{
    if (t == NULL)
        return;
    wf_tpl_arena_release(&t->arena);
    free(t);
}

bool wf_template_marks_generation(const struct wf_template *t)
{
    return t->marks_generation;
}
