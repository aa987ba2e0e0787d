/* Evaluates the expressions of templates. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

struct wf_tpl_value wf_tpl_raise(struct wf_tpl_run *r, uint32_t line, const char *format, ...)
{
    char text[300], where[16] = "";
    va_list args;
    if (r->status != WEFT_OK)
        return (struct wf_tpl_value){0};
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (line > 0)
        snprintf(where, sizeof where, ":%u", (unsigned)line);
    r->status = WEFT_FAIL(r->err, WEFT_DATA, "%.120s%s: %s", r->t->name, where, text);
    return (struct wf_tpl_value){0};
}

static struct wf_tpl_value look_up(struct wf_tpl_run *r, struct wf_tpl_string name)
{
    struct wf_tpl_value key = wf_tpl_string(name.at, name.len);
    for (const struct wf_tpl_scope *s = r->scope; s != NULL; s = s->parent) {
        const struct wf_tpl_value *v = wf_tpl_get(&s->names, key);
        if (v != NULL)
            return *v;
    }
    if (wf_tpl_has_function(name))
        return (struct wf_tpl_value){.kind = WF_TPL_FUNCTION, .s = name};
    return wf_tpl_undefined(name);
}

/* -- elements ------------------------------------------------------------------------------ */

static struct wf_tpl_value loop_attribute(struct wf_tpl_run *r, const struct wf_tpl_loop *loop,
                                          struct wf_tpl_string key, uint32_t line)
{
    int64_t i = (int64_t)loop->index, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        struct wf_tpl_value value;
    } all[] = {
        {"index", wf_tpl_int(i + 1)},
        {"index0", wf_tpl_int(i)},
        {"first", wf_tpl_bool(i == 0)},
        {"last", wf_tpl_bool(i + 1 == n)},
        {"length", wf_tpl_int(n)},
        {"revindex", wf_tpl_int(n - i)},
        {"revindex0", wf_tpl_int(n - i - 1)},
        {"depth", wf_tpl_int((int64_t)loop->depth + 1)},
        {"depth0", wf_tpl_int((int64_t)loop->depth)},
        {"previtem", i > 0 ? loop->items->at[i - 1] : wf_tpl_undefined(key)},
        {"nextitem", i + 1 < n ? loop->items->at[i + 1] : wf_tpl_undefined(key)},
    };

    for (size_t k = 0; k < WEFT_LEN(all); k++)
        if (wf_tpl_is(key, all[k].name))
            return all[k].value;
    return wf_tpl_raise(r, line, "loop.%.*s is not supported", (int)key.len, key.at);
}

/* Returns the character or element at an index; negative indices count from the end. */
static struct wf_tpl_value at_index(struct wf_tpl_run *r, struct wf_tpl_value v, int64_t i,
                                    uint32_t line)
{
    const struct wf_tpl_list *items = wf_tpl_items(r, v, line);
    int64_t n = (int64_t)items->n;
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return wf_tpl_undefined((struct wf_tpl_string){"an element out of range", 23});
    return items->at[i];
}

struct wf_tpl_value wf_tpl_element(struct wf_tpl_run *r, struct wf_tpl_value v,
                                   struct wf_tpl_value key, uint32_t line)
{
    if (v.kind == WF_TPL_UNDEFINED)
        return wf_tpl_raise(r, line, "'%.*s' is undefined", (int)v.s.len, v.s.at);
    if (v.kind == WF_TPL_DICT) {
        const struct wf_tpl_value *found = wf_tpl_get(v.dict, key);
        if (found != NULL)
            return *found;
    }
    if ((v.kind == WF_TPL_LIST || v.kind == WF_TPL_STRING) &&
        (key.kind == WF_TPL_INT || key.kind == WF_TPL_BOOL))
        return at_index(r, v, key.kind == WF_TPL_INT ? key.i : key.b, line);
    if (key.kind == WF_TPL_STRING && v.kind == WF_TPL_LOOP)
        return loop_attribute(r, v.loop, key.s, line);
    return wf_tpl_undefined(
        key.kind == WF_TPL_STRING ? key.s : (struct wf_tpl_string){"an element", 10});
}

struct wf_tpl_value wf_tpl_attribute(struct wf_tpl_run *r, struct wf_tpl_value v,
                                     struct wf_tpl_string key, uint32_t line)
{
    bool is_namespace = v.kind == WF_TPL_DICT && v.dict->is_namespace;
    if (!is_namespace && wf_tpl_has_method(v.kind, key)) {
        struct wf_tpl_value *self = wf_tpl_alloc(&r->arena, sizeof *self);
        if (self == NULL)
            return wf_tpl_raise(r, line, "no memory");
        *self = v;
        return (struct wf_tpl_value){.kind = WF_TPL_METHOD, .s = key, .self = self};
    }
    return wf_tpl_element(r, v, wf_tpl_string(key.at, key.len), line);
}

/* Returns the index of a slice's end in 0 .. n (or -1 .. n-1 for a negative step). */
static int64_t slice_end(struct wf_tpl_run *r, const struct wf_tpl_node *node, int64_t n,
                         int64_t step, bool is_begin)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    struct wf_tpl_value v = node == NULL ? wf_tpl_none() : wf_tpl_eval(r, node);
    if (v.kind == WF_TPL_NONE)
        return is_begin == (step > 0) ? low : high;
    if (v.kind != WF_TPL_INT) {
        wf_tpl_raise(r, node->line, "the end of a slice is %s (expected a whole number)",
                     wf_tpl_type(v));
        return 0;
    }
    int64_t i = v.i < 0 ? (v.i < -n ? -1 : v.i + n) : v.i;
    if (v.i < 0 && v.i < -n)
        return low;
    return i < low ? low : i > high ? high : i;
}

static struct wf_tpl_value eval_slice(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value v = wf_tpl_eval(r, node->a), out;
    struct wf_tpl_value step = node->d == NULL ? wf_tpl_int(1) : wf_tpl_eval(r, node->d);
    struct wf_text text = {0};
    if (step.kind == WF_TPL_NONE)
        step = wf_tpl_int(1);
    if (r->status != WEFT_OK)
        return v;
    if (v.kind == WF_TPL_UNDEFINED)
        return wf_tpl_raise(r, node->line, "'%.*s' is undefined", (int)v.s.len, v.s.at);
    if ((v.kind != WF_TPL_LIST && v.kind != WF_TPL_STRING) || step.kind != WF_TPL_INT ||
        step.i == 0 || step.i > INT32_MAX || step.i < -INT32_MAX)
        return wf_tpl_raise(r, node->line, "%s cannot be sliced so", wf_tpl_type(v));

    const struct wf_tpl_list *items = wf_tpl_items(r, v, node->line);
    int64_t n = (int64_t)items->n, begin = slice_end(r, node->b, n, step.i, true);
    int64_t end = slice_end(r, node->c, n, step.i, false);
    out = wf_tpl_new_list(r);
    for (int64_t i = begin; r->status == WEFT_OK && (step.i > 0 ? i < end : i > end);
         i += step.i) {
        if (v.kind == WF_TPL_STRING)
            wf_text_add(&text, items->at[i].s.at, items->at[i].s.len);
        else
            wf_tpl_push(r, out.list, items->at[i]);
    }
    return v.kind == WF_TPL_STRING ? wf_tpl_take_text(r, &text) : out;
}

/* -- operators ----------------------------------------------------------------------------- */

static struct wf_tpl_value concat(struct wf_tpl_run *r, struct wf_tpl_value a,
                                  struct wf_tpl_value b)
{
    struct wf_tpl_value x = wf_tpl_str(r, a), y = wf_tpl_str(r, b);
    if (r->status != WEFT_OK || x.s.len == 0)
        return y;
    if (y.s.len == 0)
        return x;
    char *both = wf_tpl_alloc(&r->arena, x.s.len + y.s.len + 1);
    if (both == NULL)
        return wf_tpl_raise(r, 0, "needs more than %d MiB of memory", WF_TPL_MAX_MEMORY >> 20);
    memcpy(both, x.s.at, x.s.len);
    memcpy(both + x.s.len, y.s.at, y.s.len);
    return wf_tpl_string(both, x.s.len + y.s.len);
}

static struct wf_tpl_value fail_operands(struct wf_tpl_run *r, struct wf_tpl_value a,
                                         struct wf_tpl_value b, const char *operation,
                                         uint32_t line)
{
    struct wf_tpl_value u = a.kind == WF_TPL_UNDEFINED ? a : b;
    if (u.kind == WF_TPL_UNDEFINED)
        return wf_tpl_raise(r, line, "'%.*s' is undefined", (int)u.s.len, u.s.at);
    return wf_tpl_raise(r, line, "%s %s %s is not possible", wf_tpl_type(a), operation,
                        wf_tpl_type(b));
}

static struct wf_tpl_value add(struct wf_tpl_run *r, struct wf_tpl_value a,
                               struct wf_tpl_value b, uint32_t line)
{
    if (a.kind == WF_TPL_STRING && b.kind == WF_TPL_STRING)
        return concat(r, a, b);
    if (a.kind != WF_TPL_LIST || b.kind != WF_TPL_LIST)
        return fail_operands(r, a, b, "+", line);
    struct wf_tpl_value out = wf_tpl_new_list(r);
    for (size_t i = 0; i < a.list->n; i++)
        wf_tpl_push(r, out.list, a.list->at[i]);
    for (size_t i = 0; i < b.list->n; i++)
        wf_tpl_push(r, out.list, b.list->at[i]);
    return out;
}

/* Multiplies a string by a number. */
static struct wf_tpl_value repeat(struct wf_tpl_run *r, struct wf_tpl_value a,
                                  struct wf_tpl_value b, uint32_t line)
{
    struct wf_text text = {0};
    if (a.kind != WF_TPL_STRING) {
        struct wf_tpl_value swap = a;
        a = b;
        b = swap;
    }
    if (a.kind != WF_TPL_STRING || b.kind != WF_TPL_INT)
        return fail_operands(r, a, b, "*", line);
    if (b.i > 0 && a.s.len > (size_t)WF_TPL_MAX_OUTPUT / (size_t)b.i)
        return wf_tpl_raise(r, line, "the string is larger than %d MiB",
                            WF_TPL_MAX_OUTPUT >> 20);
    for (int64_t i = 0; i < b.i && a.s.len > 0; i++)
        wf_text_add(&text, a.s.at, a.s.len);
    return wf_tpl_take_text(r, &text);
}

/* Computes with whole numbers.  Division rounds down, as Python does. */
static struct wf_tpl_value compute_ints(struct wf_tpl_run *r, enum wf_tpl_operator code,
                                        int64_t a, int64_t b, uint32_t line)
{
    int64_t out = 0;
    bool overflow = false;
    if (code == WF_TPL_FLOOR_DIV || code == WF_TPL_MOD) {
        if (b == 0 || (b == -1 && a == INT64_MIN))
            return wf_tpl_raise(r, line, "division by zero");
        int64_t rest = a % b;
        bool down = rest != 0 && (rest < 0) != (b < 0);
        return wf_tpl_int(code == WF_TPL_MOD ? rest + (down ? b : 0) : a / b - down);
    }
    if (code == WF_TPL_ADD)
        overflow = __builtin_add_overflow(a, b, &out);
    else if (code == WF_TPL_SUB)
        overflow = __builtin_sub_overflow(a, b, &out);
    else
        overflow = __builtin_mul_overflow(a, b, &out);
    return overflow ? wf_tpl_raise(r, line, "a number is too large") : wf_tpl_int(out);
}

static struct wf_tpl_value compute(struct wf_tpl_run *r, enum wf_tpl_operator code,
                                   struct wf_tpl_value a, struct wf_tpl_value b, uint32_t line)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%"};
    double x = wf_tpl_number(a), y = wf_tpl_number(b), out;
    if (!wf_tpl_is_number(a) || !wf_tpl_is_number(b))
        return code == WF_TPL_ADD   ? add(r, a, b, line)
               : code == WF_TPL_MUL ? repeat(r, a, b, line)
                                    : fail_operands(r, a, b, names[code], line);
    if (a.kind != WF_TPL_FLOAT && b.kind != WF_TPL_FLOAT && code != WF_TPL_DIV)
        return compute_ints(r, code, a.kind == WF_TPL_INT ? a.i : a.b,
                            b.kind == WF_TPL_INT ? b.i : b.b, line);
    if (y == 0 && (code == WF_TPL_DIV || code == WF_TPL_FLOOR_DIV || code == WF_TPL_MOD))
        return wf_tpl_raise(r, line, "division by zero");
    out = code == WF_TPL_ADD         ? x + y
          : code == WF_TPL_SUB       ? x - y
          : code == WF_TPL_MUL       ? x * y
          : code == WF_TPL_DIV       ? x / y
          : code == WF_TPL_FLOOR_DIV ? floor(x / y)
                                     : x - y * floor(x / y);
    return (struct wf_tpl_value){.kind = WF_TPL_FLOAT, .f = out};
}

static bool contains(struct wf_tpl_run *r, struct wf_tpl_value in, struct wf_tpl_value x,
                     uint32_t line)
{
    if (in.kind == WF_TPL_STRING && x.kind == WF_TPL_STRING)
        return wf_tpl_find(in.s, x.s, 0) != SIZE_MAX;
    if (in.kind == WF_TPL_STRING) {
        wf_tpl_raise(r, line, "'in' a string needs a string, not %s", wf_tpl_type(x));
        return false;
    }
    if (in.kind == WF_TPL_DICT)
        return wf_tpl_get(in.dict, x) != NULL;
    const struct wf_tpl_list *items = wf_tpl_items(r, in, line);
    for (size_t i = 0; i < items->n; i++)
        if (wf_tpl_equal(items->at[i], x))
            return true;
    return false;
}

static struct wf_tpl_value eval_binary(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value a = wf_tpl_eval(r, node->a), b = wf_tpl_eval(r, node->b);
    if (r->status != WEFT_OK)
        return a;

    switch (node->code) {
    case WF_TPL_ADD:
    case WF_TPL_SUB:
    case WF_TPL_MUL:
    case WF_TPL_DIV:
    case WF_TPL_FLOOR_DIV:
    case WF_TPL_MOD:
        return compute(r, node->code, a, b, node->line);
    case WF_TPL_CONCAT:
        return concat(r, a, b);
    case WF_TPL_EQ:
        return wf_tpl_bool(wf_tpl_equal(a, b));
    case WF_TPL_NE:
        return wf_tpl_bool(!wf_tpl_equal(a, b));
    case WF_TPL_LT:
        return wf_tpl_bool(wf_tpl_compare(r, a, b, node->line) < 0);
    case WF_TPL_LE:
        return wf_tpl_bool(wf_tpl_compare(r, a, b, node->line) <= 0);
    case WF_TPL_GT:
        return wf_tpl_bool(wf_tpl_compare(r, a, b, node->line) > 0);
    case WF_TPL_GE:
        return wf_tpl_bool(wf_tpl_compare(r, a, b, node->line) >= 0);
    case WF_TPL_IN:
        return wf_tpl_bool(contains(r, b, a, node->line));
    }
    return a;
}

/* -- calls --------------------------------------------------------------------------------- */

static void eval_args(struct wf_tpl_run *r, const struct wf_tpl_node *list,
                      struct wf_tpl_args *out)
{
    out->n = 0;
    for (; list != NULL && out->n < WF_TPL_MAX_ARGS; list = list->next, out->n++) {
        out->at[out->n] = wf_tpl_eval(r, list->a);
        out->names[out->n] =
            list->value.kind == WF_TPL_STRING ? list->value.s : (struct wf_tpl_string){"", 0};
    }
}

static struct wf_tpl_value eval_call(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_args args;
    struct wf_tpl_value f = wf_tpl_eval(r, node->a);
    eval_args(r, node->list, &args);
    if (r->status != WEFT_OK)
        return f;
    if (f.kind == WF_TPL_METHOD)
        return wf_tpl_call_method(r, f, &args, node->line);
    if (f.kind == WF_TPL_FUNCTION)
        return wf_tpl_call_function(r, f.s, &args, node->line);
    if (f.kind == WF_TPL_MACRO)
        return wf_tpl_call_macro(r, f.macro, &args, node->line);
    if (f.kind == WF_TPL_UNDEFINED)
        return wf_tpl_raise(r, node->line, "the function '%.*s' is not defined", (int)f.s.len,
                            f.s.at);
    return wf_tpl_raise(r, node->line, "%s cannot be called", wf_tpl_type(f));
}

static struct wf_tpl_value make_list(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value out = wf_tpl_new_list(r);
    for (const struct wf_tpl_node *e = node->list; e != NULL; e = e->next)
        wf_tpl_push(r, out.list, wf_tpl_eval(r, e->a));
    return out;
}

static struct wf_tpl_value make_dict(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value out = wf_tpl_new_dict(r);
    for (const struct wf_tpl_node *e = node->list; e != NULL; e = e->next) {
        struct wf_tpl_value key = wf_tpl_eval(r, e->a);
        wf_tpl_put(r, out.dict, key, wf_tpl_eval(r, e->b));
    }
    return out;
}

static struct wf_tpl_value negate(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value v = wf_tpl_eval(r, node->a);
    if (!wf_tpl_is_number(v))
        return wf_tpl_raise(r, node->line, "- of %s is not possible", wf_tpl_type(v));
    if (v.kind == WF_TPL_FLOAT)
        return (struct wf_tpl_value){.kind = WF_TPL_FLOAT, .f = -v.f};
    return compute_ints(r, WF_TPL_SUB, 0, v.kind == WF_TPL_INT ? v.i : v.b, node->line);
}

static struct wf_tpl_value eval_filter(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_args args;
    struct wf_tpl_value x = wf_tpl_eval(r, node->a);
    eval_args(r, node->list, &args);
    if (r->status != WEFT_OK)
        return x;
    if (node->op == WF_TPL_FILTER)
        return wf_tpl_apply_filter(r, node->value.s, x, &args, node->line);
    if (wf_tpl_is(node->value.s, "in"))
        return wf_tpl_bool(contains(r, wf_tpl_arg(&args, 0, "seq"), x, node->line));
    return wf_tpl_bool(wf_tpl_apply_test(r, node->value.s, x, &args, node->line));
}

static struct wf_tpl_value eval_node(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    struct wf_tpl_value a;

    switch (node->op) {
    case WF_TPL_LITERAL:
        return node->value;
    case WF_TPL_NAME:
        return look_up(r, node->value.s);
    case WF_TPL_MAKE_LIST:
        return make_list(r, node);
    case WF_TPL_MAKE_DICT:
        return make_dict(r, node);
    case WF_TPL_ATTRIBUTE:
        return wf_tpl_attribute(r, wf_tpl_eval(r, node->a), node->value.s, node->line);
    case WF_TPL_ITEM:
        a = wf_tpl_eval(r, node->a);
        return wf_tpl_element(r, a, wf_tpl_eval(r, node->b), node->line);
    case WF_TPL_SLICE:
        return eval_slice(r, node);
    case WF_TPL_CALL:
        return eval_call(r, node);
    case WF_TPL_FILTER:
    case WF_TPL_TEST:
        return eval_filter(r, node);
    case WF_TPL_NOT:
        return wf_tpl_bool(!wf_tpl_truth(wf_tpl_eval(r, node->a)));
    case WF_TPL_NEGATE:
        return negate(r, node);
    case WF_TPL_BINARY:
        return eval_binary(r, node);
    case WF_TPL_AND:
        a = wf_tpl_eval(r, node->a);
        return wf_tpl_truth(a) ? wf_tpl_eval(r, node->b) : a;
    case WF_TPL_OR:
        a = wf_tpl_eval(r, node->a);
        return wf_tpl_truth(a) ? a : wf_tpl_eval(r, node->b);
    case WF_TPL_CHOICE:
        if (wf_tpl_truth(wf_tpl_eval(r, node->b)))
            return wf_tpl_eval(r, node->a);
        return node->c == NULL
                   ? wf_tpl_undefined((struct wf_tpl_string){"the other branch", 16})
                   : wf_tpl_eval(r, node->c);
    default: /* statements are not evaluated */
        break;
    }
    return wf_tpl_raise(r, node->line, "not an expression");
}

struct wf_tpl_value wf_tpl_eval(struct wf_tpl_run *r, const struct wf_tpl_node *node)
{
    if (r->status != WEFT_OK)
        return (struct wf_tpl_value){0};
    if (++r->steps > WF_TPL_MAX_STEPS)
        return wf_tpl_raise(r, node->line, "the template runs for more than %d steps",
                            WF_TPL_MAX_STEPS);
    if (++r->depth > WF_TPL_MAX_DEPTH * 4)
        return wf_tpl_raise(r, node->line, "nested deeper than %d levels",
                            WF_TPL_MAX_DEPTH * 4);
    struct wf_tpl_value v = eval_node(r, node);
    r->depth--;
    return v;
}
