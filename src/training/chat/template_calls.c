/* Methods of strings and dictionaries, and global functions of templates. */
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

typedef struct wf_tpl_value method_fn(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line);

/* Returns argument i as a string, or records an error. */
static struct wf_tpl_string string_arg(struct wf_tpl_run *r, const struct wf_tpl_args *args,
                                       size_t i, const char *name, uint32_t line)
{
    struct wf_tpl_value v = wf_tpl_arg(args, i, name);
    if (v.kind != WF_TPL_STRING)
        wf_tpl_raise(r, line, "the argument is %s (expected a string)", wf_tpl_type(v));
    return v.kind == WF_TPL_STRING ? v.s : (struct wf_tpl_string){"", 0};
}

/* -- strings ------------------------------------------------------------------------------- */

static struct wf_tpl_value strip_sides(struct wf_tpl_run *r, struct wf_tpl_value self,
                                       const struct wf_tpl_args *args, bool left, bool right,
                                       uint32_t line)
{
    struct wf_tpl_value set = wf_tpl_arg(args, 0, "chars");
    if (set.kind == WF_TPL_UNDEFINED || set.kind == WF_TPL_NONE)
        return wf_tpl_strip(self.s, NULL, left, right);
    struct wf_tpl_string chars = string_arg(r, args, 0, "chars", line);
    return wf_tpl_strip(self.s, &chars, left, right);
}

static struct wf_tpl_value call_strip(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    return strip_sides(r, self, args, true, true, line);
}

static struct wf_tpl_value call_lstrip(struct wf_tpl_run *r, struct wf_tpl_value self,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    return strip_sides(r, self, args, true, false, line);
}

static struct wf_tpl_value call_rstrip(struct wf_tpl_run *r, struct wf_tpl_value self,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    return strip_sides(r, self, args, false, true, line);
}

static bool starts(struct wf_tpl_string s, struct wf_tpl_string part)
{
    return part.len <= s.len && memcmp(s.at, part.at, part.len) == 0;
}

static bool ends(struct wf_tpl_string s, struct wf_tpl_string part)
{
    return part.len <= s.len && memcmp(s.at + s.len - part.len, part.at, part.len) == 0;
}

/* Tests a string, or any of a list of strings. */
static struct wf_tpl_value match(struct wf_tpl_run *r, struct wf_tpl_value self,
                                 const struct wf_tpl_args *args,
                                 bool (*test)(struct wf_tpl_string, struct wf_tpl_string),
                                 uint32_t line)
{
    struct wf_tpl_value v = wf_tpl_arg(args, 0, "prefix");
    if (v.kind != WF_TPL_LIST)
        return wf_tpl_bool(test(self.s, string_arg(r, args, 0, "prefix", line)));
    for (size_t i = 0; i < v.list->n; i++)
        if (v.list->at[i].kind == WF_TPL_STRING && test(self.s, v.list->at[i].s))
            return wf_tpl_bool(true);
    return wf_tpl_bool(false);
}

static struct wf_tpl_value call_startswith(struct wf_tpl_run *r, struct wf_tpl_value self,
                                           const struct wf_tpl_args *args, uint32_t line)
{
    return match(r, self, args, starts, line);
}

static struct wf_tpl_value call_endswith(struct wf_tpl_run *r, struct wf_tpl_value self,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    return match(r, self, args, ends, line);
}

static struct wf_tpl_value call_removeprefix(struct wf_tpl_run *r, struct wf_tpl_value self,
                                             const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_string part = string_arg(r, args, 0, "prefix", line), s = self.s;
    return starts(s, part) ? wf_tpl_string(s.at + part.len, s.len - part.len) : self;
}

static struct wf_tpl_value call_removesuffix(struct wf_tpl_run *r, struct wf_tpl_value self,
                                             const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_string part = string_arg(r, args, 0, "suffix", line), s = self.s;
    return ends(s, part) ? wf_tpl_string(s.at, s.len - part.len) : self;
}

/* Splits at white space, as split() without arguments does. */
static struct wf_tpl_value split_words(struct wf_tpl_run *r, struct wf_tpl_string s)
{
    struct wf_tpl_value out = wf_tpl_new_list(r);
    while (r->status == WEFT_OK) {
        s = wf_tpl_strip(s, NULL, true, false).s;
        size_t n = 0;
        while (n < s.len &&
               wf_tpl_strip((struct wf_tpl_string){s.at + n, s.len - n}, NULL, true, false)
                       .s.len == s.len - n)
            n += wf_tpl_char_bytes(s.at + n, s.len - n);
        if (n == 0)
            break;
        wf_tpl_push(r, out.list, wf_tpl_string(s.at, n));
        s.at += n;
        s.len -= n;
    }
    return out;
}

static struct wf_tpl_value call_split(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value by = wf_tpl_arg(args, 0, "sep"), max = wf_tpl_arg(args, 1, "maxsplit");
    struct wf_tpl_string s = self.s;
    if (by.kind == WF_TPL_UNDEFINED || by.kind == WF_TPL_NONE)
        return split_words(r, s);
    struct wf_tpl_string sep = string_arg(r, args, 0, "sep", line);
    int64_t left = max.kind == WF_TPL_INT ? max.i : -1;
    struct wf_tpl_value out = wf_tpl_new_list(r);
    if (sep.len == 0)
        return wf_tpl_raise(r, line, "split: the separator is empty");

    size_t at = 0;
    for (size_t found; left != 0 && (found = wf_tpl_find(s, sep, at)) != SIZE_MAX; left--) {
        wf_tpl_push(r, out.list, wf_tpl_string(s.at + at, found - at));
        at = found + sep.len;
        if (r->status != WEFT_OK)
            break;
    }
    wf_tpl_push(r, out.list, wf_tpl_string(s.at + at, s.len - at));
    return out;
}

static struct wf_tpl_value call_upper(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, self.s, 'U');
}

static struct wf_tpl_value call_lower(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, self.s, 'L');
}

static struct wf_tpl_value call_title(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, self.s, 'T');
}

static struct wf_tpl_value call_capitalize(struct wf_tpl_run *r, struct wf_tpl_value self,
                                           const struct wf_tpl_args *args, uint32_t line)
{
    (void)args;
    (void)line;
    return wf_tpl_change_case(r, self.s, 'C');
}

static struct wf_tpl_value call_replace(struct wf_tpl_run *r, struct wf_tpl_value self,
                                        const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value count = wf_tpl_arg(args, 2, "count");
    return wf_tpl_replace(r, self.s, string_arg(r, args, 0, "old", line),
                          string_arg(r, args, 1, "new", line),
                          count.kind == WF_TPL_INT ? count.i : -1, line);
}

/* Returns the number of the character at which a part begins, or -1. */
static struct wf_tpl_value call_find(struct wf_tpl_run *r, struct wf_tpl_value self,
                                     const struct wf_tpl_args *args, uint32_t line)
{
    size_t found = wf_tpl_find(self.s, string_arg(r, args, 0, "sub", line), 0);
    if (found == SIZE_MAX)
        return wf_tpl_int(-1);
    return wf_tpl_int((int64_t)wf_tpl_n_chars((struct wf_tpl_string){self.s.at, found}));
}

static struct wf_tpl_value call_join(struct wf_tpl_run *r, struct wf_tpl_value self,
                                     const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_args join = {.n = 1, .at = {self}};
    return wf_tpl_apply_filter(r, (struct wf_tpl_string){"join", 4},
                               wf_tpl_arg(args, 0, "iterable"), &join, line);
}

/* -- dictionaries -------------------------------------------------------------------------- */

static struct wf_tpl_value call_items(struct wf_tpl_run *r, struct wf_tpl_value self,
                                      const struct wf_tpl_args *args, uint32_t line)
{
    return wf_tpl_apply_filter(r, (struct wf_tpl_string){"items", 5}, self, args, line);
}

static struct wf_tpl_value call_keys(struct wf_tpl_run *r, struct wf_tpl_value self,
                                     const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value out = {.kind = WF_TPL_LIST, .list = wf_tpl_items(r, self, line)};
    (void)args;
    return out;
}

static struct wf_tpl_value call_values(struct wf_tpl_run *r, struct wf_tpl_value self,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    struct wf_tpl_value out = wf_tpl_new_list(r);
    (void)args;
    (void)line;
    for (size_t i = 0; i < self.dict->n; i++)
        wf_tpl_push(r, out.list, self.dict->values[i]);
    return out;
}

static struct wf_tpl_value call_get(struct wf_tpl_run *r, struct wf_tpl_value self,
                                    const struct wf_tpl_args *args, uint32_t line)
{
    const struct wf_tpl_value *found = wf_tpl_get(self.dict, wf_tpl_arg(args, 0, "key"));
    struct wf_tpl_value other = wf_tpl_arg(args, 1, "default");
    (void)r;
    (void)line;
    if (found != NULL)
        return *found;
    return args->n > 1 ? other : wf_tpl_none();
}

static const struct {
    enum wf_tpl_kind kind;
    const char *name;
    method_fn *call;
} methods[] = {
    {WF_TPL_STRING, "strip", call_strip},
    {WF_TPL_STRING, "lstrip", call_lstrip},
    {WF_TPL_STRING, "rstrip", call_rstrip},
    {WF_TPL_STRING, "startswith", call_startswith},
    {WF_TPL_STRING, "endswith", call_endswith},
    {WF_TPL_STRING, "removeprefix", call_removeprefix},
    {WF_TPL_STRING, "removesuffix", call_removesuffix},
    {WF_TPL_STRING, "split", call_split},
    {WF_TPL_STRING, "upper", call_upper},
    {WF_TPL_STRING, "lower", call_lower},
    {WF_TPL_STRING, "title", call_title},
    {WF_TPL_STRING, "capitalize", call_capitalize},
    {WF_TPL_STRING, "replace", call_replace},
    {WF_TPL_STRING, "find", call_find},
    {WF_TPL_STRING, "join", call_join},
    {WF_TPL_DICT, "items", call_items},
    {WF_TPL_DICT, "keys", call_keys},
    {WF_TPL_DICT, "values", call_values},
    {WF_TPL_DICT, "get", call_get},
};

bool wf_tpl_has_method(enum wf_tpl_kind kind, struct wf_tpl_string name)
{
    for (size_t i = 0; i < WEFT_LEN(methods); i++)
        if (methods[i].kind == kind && wf_tpl_is(name, methods[i].name))
            return true;
    return false;
}

struct wf_tpl_value wf_tpl_call_method(struct wf_tpl_run *r, struct wf_tpl_value method,
                                       const struct wf_tpl_args *args, uint32_t line)
{
    for (size_t i = 0; i < WEFT_LEN(methods); i++)
        if (methods[i].kind == method.self->kind && wf_tpl_is(method.s, methods[i].name))
            return methods[i].call(r, *method.self, args, line);
    return wf_tpl_raise(r, line, "the method '%.*s' is not supported", (int)method.s.len,
                        method.s.at);
}

/* -- functions ----------------------------------------------------------------------------- */

static struct wf_tpl_value call_range(struct wf_tpl_run *r, const struct wf_tpl_args *args,
                                      uint32_t line)
{
    enum { MAX_RANGE = 100000 }; /* the limit of Jinja's sandbox */
    struct wf_tpl_value out = wf_tpl_new_list(r);
    int64_t ends_of[3] = {0, 0, 1};
    for (size_t i = 0; i < args->n && i < 3; i++) {
        if (args->at[i].kind != WF_TPL_INT || args->at[i].i > INT32_MAX ||
            args->at[i].i < -INT32_MAX)
            return wf_tpl_raise(r, line, "range: an argument is %s (expected a small number)",
                                wf_tpl_type(args->at[i]));
        ends_of[args->n == 1 ? 1 : i] = args->at[i].i;
    }

    if (args->n == 0 || args->n > 3 || ends_of[2] == 0)
        return wf_tpl_raise(r, line, "range: wrong arguments");
    for (int64_t i = ends_of[0]; ends_of[2] > 0 ? i < ends_of[1] : i > ends_of[1];
         i += ends_of[2]) {
        if (out.list->n > MAX_RANGE)
            return wf_tpl_raise(r, line, "range: more than %d numbers", MAX_RANGE);
        wf_tpl_push(r, out.list, wf_tpl_int(i));
        if (r->status != WEFT_OK)
            break;
    }
    return out;
}

/* Makes a dictionary or a namespace of named arguments and dictionaries. */
static struct wf_tpl_value call_dict(struct wf_tpl_run *r, const struct wf_tpl_args *args,
                                     uint32_t line)
{
    struct wf_tpl_value out = wf_tpl_new_dict(r);
    for (size_t i = 0; i < args->n; i++) {
        struct wf_tpl_string name = args->names[i];
        if (name.len > 0) {
            wf_tpl_put(r, out.dict, wf_tpl_string(name.at, name.len), args->at[i]);
        } else if (args->at[i].kind == WF_TPL_DICT) {
            const struct wf_tpl_dict *from = args->at[i].dict;
            for (size_t k = 0; k < from->n; k++)
                wf_tpl_put(r, out.dict, from->keys[k], from->values[k]);
        } else {
            return wf_tpl_raise(r, line, "the argument is %s (expected a name and a value)",
                                wf_tpl_type(args->at[i]));
        }
    }
    return out;
}

static struct wf_tpl_value call_namespace(struct wf_tpl_run *r, const struct wf_tpl_args *args,
                                          uint32_t line)
{
    struct wf_tpl_value out = call_dict(r, args, line);
    if (r->status == WEFT_OK)
        out.dict->is_namespace = true;
    return out;
}

static struct wf_tpl_value call_raise(struct wf_tpl_run *r, const struct wf_tpl_args *args,
                                      uint32_t line)
{
    struct wf_tpl_value text = wf_tpl_str(r, wf_tpl_arg(args, 0, "message"));
    return wf_tpl_raise(r, line, "the template refuses the conversation: %.*s",
                        (int)(text.s.len < 200 ? text.s.len : 200), text.s.at);
}

static const struct {
    const char *name;
    struct wf_tpl_value (*call)(struct wf_tpl_run *r, const struct wf_tpl_args *args,
                                uint32_t line);
} functions[] = {
    {"range", call_range},
    {"dict", call_dict},
    {"namespace", call_namespace},
    {"raise_exception", call_raise},
};

bool wf_tpl_has_function(struct wf_tpl_string name)
{
    for (size_t i = 0; i < WEFT_LEN(functions); i++)
        if (wf_tpl_is(name, functions[i].name))
            return true;
    return false;
}

struct wf_tpl_value wf_tpl_call_function(struct wf_tpl_run *r, struct wf_tpl_string name,
                                         const struct wf_tpl_args *args, uint32_t line)
{
    for (size_t i = 0; i < WEFT_LEN(functions); i++)
        if (wf_tpl_is(name, functions[i].name))
            return functions[i].call(r, args, line);
    return wf_tpl_raise(r, line, "the function '%.*s' is not defined", (int)name.len, name.at);
}
