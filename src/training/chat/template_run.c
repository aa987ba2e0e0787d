/* Executes the statements of templates. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

static void push_scope(struct wf_tpl_run *r, struct wf_tpl_scope *scope)
{
    *scope = (struct wf_tpl_scope){.parent = r->scope};
    r->scope = scope;
}

static void pop_scope(struct wf_tpl_run *r)
{
    r->scope = r->scope->parent;
}

/* Sets an entry of a namespace. */
static void assign_attribute(struct wf_tpl_run *r, const struct wf_tpl_node *target,
                             struct wf_tpl_value value)
{
    struct wf_tpl_value of = wf_tpl_eval(r, target->a);
    if (r->status != WEFT_OK)
        return;
    if (of.kind != WF_TPL_DICT || !of.dict->is_namespace)
        wf_tpl_raise(r, target->line, "only entries of a namespace can be set, not of %s",
                     wf_tpl_type(of));
    else
        wf_tpl_put(r, of.dict, target->value, value);
}

void wf_tpl_assign(struct wf_tpl_run *r, const struct wf_tpl_node *target,
                   struct wf_tpl_value value)
{
    if (target->op == WF_TPL_ATTRIBUTE) {
        assign_attribute(r, target, value);
        return;
    }
    if (target->op != WF_TPL_MAKE_LIST) {
        wf_tpl_put(r, &r->scope->names, target->value, value);
        return;
    }
    const struct wf_tpl_list *items = wf_tpl_items(r, value, target->line);
    size_t n = 0;
    for (const struct wf_tpl_node *t = target->list; t != NULL; t = t->next, n++)
        if (n < items->n)
            wf_tpl_put(r, &r->scope->names, t->value, items->at[n]);
    if (n != items->n)
        wf_tpl_raise(r, target->line, "%zu values for %zu names", items->n, n);
}

/* Executes a body and returns its output as a string. */
static struct wf_tpl_value capture(struct wf_tpl_run *r, const struct wf_tpl_node *body)
{
    struct wf_text text = {0}, *before = r->out;
    bool in_macro = r->in_macro;
    r->out = &text;
    r->in_macro = true;
    wf_tpl_exec(r, body);
    r->in_macro = in_macro;
    r->out = before;
    return wf_tpl_take_text(r, &text);
}

struct wf_tpl_value wf_tpl_call_macro(struct wf_tpl_run *r, const struct wf_tpl_node *macro,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_scope scope, *before = r->scope;
    size_t position = 0, n_params = 0;
    r->scope = r->globals;
    push_scope(r, &scope);
    for (const struct wf_tpl_node *p = macro->a; p != NULL; p = p->next, n_params++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)p->value.s.len, p->value.s.at);
        struct wf_tpl_value v = wf_tpl_arg(args, position++, name);
        if (v.kind == WF_TPL_UNDEFINED && p->a != NULL)
            v = wf_tpl_eval(r, p->a);
        wf_tpl_put(r, &scope.names, p->value,
                   v.kind == WF_TPL_UNDEFINED ? wf_tpl_undefined(p->value.s) : v);
    }
    if (args->n > n_params)
        wf_tpl_raise(r, line, "the macro '%.*s' has only %zu parameters",
                     (int)macro->value.s.len, macro->value.s.at, n_params);
    struct wf_tpl_value out = capture(r, macro->list);
    r->scope = before;
    return out;
}

/* Returns the items for which the condition of a loop holds. */
static const struct wf_tpl_list *select_items(struct wf_tpl_run *r,
                                              const struct wf_tpl_node *node)
{
    const struct wf_tpl_list *all = wf_tpl_items(r, wf_tpl_eval(r, node->b), node->line);
    if (node->c == NULL)
        return all;
    struct wf_tpl_value some = wf_tpl_new_list(r);
    for (size_t i = 0; i < all->n && r->status == WEFT_OK; i++) {
        struct wf_tpl_scope scope;
        push_scope(r, &scope);
        wf_tpl_assign(r, node->a, all->at[i]);
        if (wf_tpl_truth(wf_tpl_eval(r, node->c)))
            wf_tpl_push(r, some.list, all->at[i]);
        pop_scope(r);
    }
    return some.list;
}

static void exec_for(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    const struct wf_tpl_list *items = select_items(r, node);
    /* In the arena, because a namespace may keep it after the loop. */
    struct wf_tpl_loop *loop = wf_tpl_alloc(&r->arena, sizeof *loop);
    if (loop == NULL) {
        wf_tpl_raise(r, node->line, "no memory");
        return;
    }
    *loop = (struct wf_tpl_loop){.items = items, .depth = r->loop_depth};
    struct wf_tpl_value variable = {.kind = WF_TPL_LOOP, .loop = loop};

    struct wf_tpl_scope scope, *before = r->scope;
    push_scope(r, &scope);
    r->loop_depth++;
    for (size_t i = 0; i < items->n && r->status == WEFT_OK; i++) {
        loop->index = i;
        scope.names.n = 0; /* the memory of the names is used again */
        r->scope = &scope;
        wf_tpl_put(r, &scope.names, wf_tpl_string("loop", 4), variable);
        wf_tpl_assign(r, node->a, items->at[i]);
        wf_tpl_exec(r, node->list);
        bool broken = r->jump == WF_TPL_BROKEN;
        r->jump = WF_TPL_GO;
        if (broken)
            break;
    }
    r->loop_depth--;
    r->scope = before;
    if (items->n == 0 && node->d != NULL)
        wf_tpl_exec(r, node->d->list);
}

/* Executes a block whose output the model generates, and records where it is. */
static void exec_generation(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_template_output *out = r->output;
    size_t begin = r->out->len;
    if (r->in_macro) {
        wf_tpl_raise(r, node->line,
                     "a generation block within a macro or a set block is not "
                     "supported");
        return;
    }
    wf_tpl_exec(r, node->list);
    struct wf_template_span *more =
        realloc(out->generated, (out->n_generated + 1) * sizeof *more);
    if (more == NULL) {
        wf_tpl_raise(r, node->line, "no memory");
        return;
    }
    out->generated = more;
    out->generated[out->n_generated++] = (struct wf_template_span){begin, r->out->len};
}

static void exec_if(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    while (node != NULL && node->op == WF_TPL_IF && !wf_tpl_truth(wf_tpl_eval(r, node->a)))
        node = node->b;
    if (node != NULL)
        wf_tpl_exec(r, node->list);
}

static void exec_one(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value v;

    switch (node->op) {
    case WF_TPL_TEXT:
        wf_text_add(r->out, node->value.s.at, node->value.s.len);
        break;
    case WF_TPL_PRINT:
        v = wf_tpl_eval(r, node->a);
        if (r->status == WEFT_OK)
            wf_tpl_print(r, r->out, v);
        break;
    case WF_TPL_IF:
        exec_if(r, node);
        break;
    case WF_TPL_BODY:
        wf_tpl_exec(r, node->list);
        break;
    case WF_TPL_FOR:
        exec_for(r, node);
        break;
    case WF_TPL_SET:
        v = wf_tpl_eval(r, node->b);
        wf_tpl_assign(r, node->a, v);
        break;
    case WF_TPL_SET_BLOCK:
        v = capture(r, node->list);
        wf_tpl_assign(r, node->a, v);
        break;
    case WF_TPL_MACRO_DEF:
        v = (struct wf_tpl_value){.kind = WF_TPL_MACRO, .macro = node};
        wf_tpl_put(r, &r->scope->names, node->value, v);
        break;
    case WF_TPL_GENERATION:
        exec_generation(r, node);
        break;
    case WF_TPL_BREAK:
        r->jump = WF_TPL_BROKEN;
        break;
    case WF_TPL_CONTINUE:
        r->jump = WF_TPL_CONTINUED;
        break;
    default: /* an expression is not a statement */
        break;
    }
}

void wf_tpl_exec(struct wf_tpl_run *r, const struct wf_tpl_node *list)
{
    if (++r->depth > 4 * WF_TPL_MAX_DEPTH)
        wf_tpl_raise(r, list == NULL ? 0 : list->line, "nested deeper than %d levels",
                     4 * WF_TPL_MAX_DEPTH);
    for (; list != NULL && r->status == WEFT_OK && r->jump == WF_TPL_GO; list = list->next) {
        exec_one(r, list);
        if (++r->steps > WF_TPL_MAX_STEPS)
            wf_tpl_raise(r, list->line, "the template runs for more than %d steps",
                         WF_TPL_MAX_STEPS);
        if (r->out->failed || r->out->len > WF_TPL_MAX_OUTPUT)
            wf_tpl_raise(r, list->line, "the output is larger than %d MiB",
                         WF_TPL_MAX_OUTPUT >> 20);
    }
    r->depth--;
}

enum weft_status wf_template_render(const struct wf_template *t, json_t *variables,
                                    struct wf_template_output *out, struct weft_error *err)
{
    struct wf_tpl_scope globals = {0};
    struct wf_tpl_run r = {.t = t,
                           .scope = &globals,
                           .globals = &globals,
                           .out = &out->text,
                           .output = out,
                           .err = err};
    const char *key;
    json_t *value;
    json_object_foreach(variables, key, value) wf_tpl_put(
        &r, &globals.names, wf_tpl_copy(&r, key, strlen(key)), wf_tpl_from_json(&r, value));
    if (r.status == WEFT_OK)
        wf_tpl_exec(&r, t->body);
    wf_tpl_arena_release(&r.arena);
    return r.status;
}

void wf_template_output_release(struct wf_template_output *out)
{
    wf_text_release(&out->text);
    free(out->generated);
    *out = (struct wf_template_output){0};
}
