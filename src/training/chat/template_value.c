/* Values of templates: memory, lists, dictionaries, comparison and conversion from JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "training/chat/template_priv.h"

/* -- memory -------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 14, ALIGNMENT = 16 };

struct wf_tpl_chunk {
    struct wf_tpl_chunk *next;
    size_t at, cap;
    _Alignas(ALIGNMENT) char bytes[];
};

void *wf_tpl_alloc(struct wf_tpl_arena *a, size_t bytes)
{
    struct wf_tpl_chunk *c = a->chunks;
    if (bytes > WF_TPL_MAX_MEMORY)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (c == NULL || c->cap - c->at < bytes) {
        size_t cap = bytes > CHUNK ? bytes : CHUNK;
        if (a->used + cap > WF_TPL_MAX_MEMORY)
            return NULL;
        c = calloc(1, sizeof *c + cap);
        if (c == NULL)
            return NULL;
        c->cap = cap;
        c->next = a->chunks;
        a->chunks = c;
        a->used += cap;
    }
    void *at = c->bytes + c->at;
    c->at += bytes;
    return at;
}

void wf_tpl_arena_release(struct wf_tpl_arena *a)
{
    while (a->chunks != NULL) {
        struct wf_tpl_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
    a->used = 0;
}

/* Allocates for a run.  Records an error if there is no memory. */
static void *alloc(struct wf_tpl_run *r, size_t bytes)
{
    void *at = wf_tpl_alloc(&r->arena, bytes);
    if (at == NULL)
        wf_tpl_raise(r, 0, "needs more than %d MiB of memory", WF_TPL_MAX_MEMORY >> 20);
    return at;
}

/* -- simple values ------------------------------------------------------------------------- */

struct wf_tpl_value wf_tpl_string(const char *at, size_t len)
{
    return (struct wf_tpl_value){.kind = WF_TPL_STRING, .s = {at, len}};
}

struct wf_tpl_value wf_tpl_int(int64_t i)
{
    return (struct wf_tpl_value){.kind = WF_TPL_INT, .i = i};
}

struct wf_tpl_value wf_tpl_bool(bool b)
{
    return (struct wf_tpl_value){.kind = WF_TPL_BOOL, .b = b};
}

struct wf_tpl_value wf_tpl_none(void)
{
    return (struct wf_tpl_value){.kind = WF_TPL_NONE};
}

struct wf_tpl_value wf_tpl_undefined(struct wf_tpl_string name)
{
    return (struct wf_tpl_value){.kind = WF_TPL_UNDEFINED, .s = name};
}

struct wf_tpl_value wf_tpl_copy(struct wf_tpl_run *r, const char *at, size_t len)
{
    char *copy = alloc(r, len + 1);
    if (copy == NULL)
        return wf_tpl_string("", 0);
    if (len > 0)
        memcpy(copy, at, len);
    return wf_tpl_string(copy, len);
}

bool wf_tpl_is(struct wf_tpl_string s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

bool wf_tpl_is_number(struct wf_tpl_value v)
{
    return v.kind == WF_TPL_INT || v.kind == WF_TPL_FLOAT || v.kind == WF_TPL_BOOL;
}

double wf_tpl_number(struct wf_tpl_value v)
{
    if (v.kind == WF_TPL_FLOAT)
        return v.f;
    return v.kind == WF_TPL_INT ? (double)v.i : v.kind == WF_TPL_BOOL && v.b;
}

const char *wf_tpl_type(struct wf_tpl_value v)
{
    static const char *const names[] = {
        [WF_TPL_UNDEFINED] = "undefined", [WF_TPL_NONE] = "none",
        [WF_TPL_BOOL] = "a boolean",      [WF_TPL_INT] = "a whole number",
        [WF_TPL_FLOAT] = "a number",      [WF_TPL_STRING] = "a string",
        [WF_TPL_LIST] = "a list",         [WF_TPL_DICT] = "a dictionary",
        [WF_TPL_LOOP] = "a loop",         [WF_TPL_MACRO] = "a macro",
        [WF_TPL_METHOD] = "a method",     [WF_TPL_FUNCTION] = "a function",
    };
    return names[v.kind];
}

bool wf_tpl_truth(struct wf_tpl_value v)
{
    switch (v.kind) {
    case WF_TPL_UNDEFINED:
    case WF_TPL_NONE:
        return false;
    case WF_TPL_BOOL:
        return v.b;
    case WF_TPL_INT:
        return v.i != 0;
    case WF_TPL_FLOAT:
        return v.f != 0;
    case WF_TPL_STRING:
        return v.s.len > 0;
    case WF_TPL_LIST:
        return v.list->n > 0;
    case WF_TPL_DICT:
        return v.dict->n > 0 || v.dict->is_namespace;
    case WF_TPL_LOOP:
    case WF_TPL_MACRO:
    case WF_TPL_METHOD:
    case WF_TPL_FUNCTION:
        return true;
    }

    return false;
}

/* -- lists and dictionaries ---------------------------------------------------------------- */

/* Returns memory for twice as many values, with the old ones. */
static struct wf_tpl_value *grow(struct wf_tpl_run *r, const struct wf_tpl_value *old, size_t n,
                                 size_t cap)
{
    struct wf_tpl_value *at = alloc(r, cap * sizeof *at);
    if (at != NULL && n > 0)
        memcpy(at, old, n * sizeof *at);
    return at;
}

struct wf_tpl_value wf_tpl_new_list(struct wf_tpl_run *r)
{
    static struct wf_tpl_list none; /* never written: the run has failed */
    struct wf_tpl_list *list = alloc(r, sizeof *list);
    return (struct wf_tpl_value){.kind = WF_TPL_LIST, .list = list == NULL ? &none : list};
}

struct wf_tpl_value wf_tpl_new_dict(struct wf_tpl_run *r)
{
    static struct wf_tpl_dict none;
    struct wf_tpl_dict *d = alloc(r, sizeof *d);
    return (struct wf_tpl_value){.kind = WF_TPL_DICT, .dict = d == NULL ? &none : d};
}

void wf_tpl_push(struct wf_tpl_run *r, struct wf_tpl_list *list, struct wf_tpl_value v)
{
    if (r->status != WEFT_OK)
        return;
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 4 : 2 * list->cap;
        struct wf_tpl_value *at = grow(r, list->at, list->n, cap);
        if (at == NULL)
            return;
        list->at = at;
        list->cap = cap;
    }
    list->at[list->n++] = v;
}

struct wf_tpl_value *wf_tpl_get(const struct wf_tpl_dict *d, struct wf_tpl_value key)
{
    for (size_t i = 0; i < d->n; i++)
        if (wf_tpl_equal(d->keys[i], key))
            return &d->values[i];
    return NULL;
}

void wf_tpl_put(struct wf_tpl_run *r, struct wf_tpl_dict *d, struct wf_tpl_value key,
                struct wf_tpl_value v)
{
    if (r->status != WEFT_OK)
        return;
    struct wf_tpl_value *known = wf_tpl_get(d, key);
    if (known != NULL) {
        *known = v;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap == 0 ? 8 : 2 * d->cap;
        struct wf_tpl_value *keys = grow(r, d->keys, d->n, cap);
        struct wf_tpl_value *values = grow(r, d->values, d->n, cap);
        if (keys == NULL || values == NULL)
            return;
        d->keys = keys;
        d->values = values;
        d->cap = cap;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = v;
}

static struct wf_tpl_value list_from_json(struct wf_tpl_run *r, json_t *j)
{
    struct wf_tpl_value v = wf_tpl_new_list(r);
    size_t i;
    json_t *element;
    json_array_foreach(j, i, element) wf_tpl_push(r, v.list, wf_tpl_from_json(r, element));
    return v;
}

static struct wf_tpl_value dict_from_json(struct wf_tpl_run *r, json_t *j)
{
    struct wf_tpl_value v = wf_tpl_new_dict(r);
    const char *key;
    json_t *member;
    json_object_foreach(j, key, member)
        wf_tpl_put(r, v.dict, wf_tpl_copy(r, key, strlen(key)), wf_tpl_from_json(r, member));
    return v;
}

/* jansson limits the nesting of what it loads, and with it the recursion. */
struct wf_tpl_value wf_tpl_from_json(struct wf_tpl_run *r, json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return dict_from_json(r, j);
    case JSON_ARRAY:
        return list_from_json(r, j);
    case JSON_STRING:
        return wf_tpl_copy(r, json_string_value(j), json_string_length(j));
    case JSON_INTEGER:
        return wf_tpl_int(json_integer_value(j));
    case JSON_REAL:
        return (struct wf_tpl_value){.kind = WF_TPL_FLOAT, .f = json_real_value(j)};
    case JSON_TRUE:
    case JSON_FALSE:
        return wf_tpl_bool(json_is_true(j));
    case JSON_NULL:
        break;
    }
    return wf_tpl_none();
}

/* -- comparison ---------------------------------------------------------------------------- */

static bool equal_at(struct wf_tpl_value a, struct wf_tpl_value b, size_t depth);

static bool equal_dicts(const struct wf_tpl_dict *a, const struct wf_tpl_dict *b, size_t depth)
{
    if (a == b)
        return true;
    if (a->n != b->n || a->is_namespace || b->is_namespace)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct wf_tpl_value *other = wf_tpl_get(b, a->keys[i]);
        if (other == NULL || !equal_at(a->values[i], *other, depth + 1))
            return false;
    }
    return true;
}

/* Compares values that are nested `depth` levels deep.  Values that are nested deeper than any
 * input are not equal. */
static bool equal_at(struct wf_tpl_value a, struct wf_tpl_value b, size_t depth)
{
    if (depth > 20 * WF_TPL_MAX_DEPTH)
        return false;
    if (wf_tpl_is_number(a) && wf_tpl_is_number(b))
        return a.kind == WF_TPL_INT && b.kind == WF_TPL_INT
                   ? a.i == b.i
                   : wf_tpl_number(a) == wf_tpl_number(b);
    if (a.kind != b.kind)
        return false;

    switch (a.kind) {
    case WF_TPL_STRING:
    case WF_TPL_FUNCTION:
        return a.s.len == b.s.len && memcmp(a.s.at, b.s.at, a.s.len) == 0;
    case WF_TPL_LIST:
        if (a.list->n != b.list->n)
            return false;
        for (size_t i = 0; i < a.list->n; i++)
            if (!equal_at(a.list->at[i], b.list->at[i], depth + 1))
                return false;
        return true;
    case WF_TPL_DICT:
        return equal_dicts(a.dict, b.dict, depth);
    case WF_TPL_LOOP:
        return a.loop == b.loop;
    case WF_TPL_MACRO:
        return a.macro == b.macro;
    case WF_TPL_METHOD:
        return a.self == b.self;
    case WF_TPL_UNDEFINED:
    case WF_TPL_NONE:
    case WF_TPL_BOOL:
    case WF_TPL_INT:
    case WF_TPL_FLOAT:
        break;
    }
    return true;
}

bool wf_tpl_equal(struct wf_tpl_value a, struct wf_tpl_value b)
{
    return equal_at(a, b, 0);
}

int wf_tpl_compare(struct wf_tpl_run *r, struct wf_tpl_value a, struct wf_tpl_value b,
                   uint32_t line)
{
    if (wf_tpl_is_number(a) && wf_tpl_is_number(b)) {
        double x = wf_tpl_number(a), y = wf_tpl_number(b);
        if (a.kind == WF_TPL_INT && b.kind == WF_TPL_INT)
            return (a.i > b.i) - (a.i < b.i);
        return (x > y) - (x < y);
    }
    if (a.kind == WF_TPL_STRING && b.kind == WF_TPL_STRING) {
        int order = memcmp(a.s.at, b.s.at, wf_size_min(a.s.len, b.s.len));
        return order != 0 ? order : (a.s.len > b.s.len) - (a.s.len < b.s.len);
    }
    wf_tpl_raise(r, line, "%s and %s cannot be ordered", wf_tpl_type(a), wf_tpl_type(b));
    return 0;
}

/* -- items --------------------------------------------------------------------------------- */

size_t wf_tpl_char_bytes(const char *at, size_t left)
{
    unsigned char c = (unsigned char)*at;
    size_t n = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    return n < left ? n : left;
}

size_t wf_tpl_n_chars(struct wf_tpl_string s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; n++)
        i += wf_tpl_char_bytes(s.at + i, s.len - i);
    return n;
}

struct wf_tpl_list *wf_tpl_items(struct wf_tpl_run *r, struct wf_tpl_value v, uint32_t line)
{
    struct wf_tpl_value out = v.kind == WF_TPL_LIST ? v : wf_tpl_new_list(r);
    if (v.kind == WF_TPL_STRING)
        for (size_t i = 0; i < v.s.len && r->status == WEFT_OK;) {
            size_t n = wf_tpl_char_bytes(v.s.at + i, v.s.len - i);
            wf_tpl_push(r, out.list, wf_tpl_string(v.s.at + i, n));
            i += n;
        }
    else if (v.kind == WF_TPL_DICT && !v.dict->is_namespace)
        for (size_t i = 0; i < v.dict->n; i++)
            wf_tpl_push(r, out.list, v.dict->keys[i]);
    else if (v.kind != WF_TPL_LIST && v.kind != WF_TPL_UNDEFINED)
        wf_tpl_raise(r, line, "%s has no items", wf_tpl_type(v));
    return out.list;
}

struct wf_tpl_value wf_tpl_arg(const struct wf_tpl_args *args, size_t i, const char *name)
{
    size_t position = 0;
    for (size_t k = 0; k < args->n; k++) {
        if (args->names[k].len == 0 && position++ == i)
            return args->at[k];
        if (args->names[k].len > 0 && wf_tpl_is(args->names[k], name))
            return args->at[k];
    }
    return wf_tpl_undefined((struct wf_tpl_string){name, strlen(name)});
}
