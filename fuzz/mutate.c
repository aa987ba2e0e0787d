/* Random edits of JSON values. */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

uint32_t random_below(struct random_numbers *r, uint32_t n)
{
    return wf_random_below(r->seed, 0, r->n_drawn++, n);
}

size_t put_text(uint8_t *data, size_t max_size, const char *text, size_t len)
{
    if (len > max_size)
        return 0;
    memcpy(data, text, len);
    return len;
}

/* -- places in a JSON value ---------------------------------------------------------------- */

enum { MAX_PLACES = 1024, MAX_STRING = 80 };

/* A value and the array or object that contains it. */
struct place {
    json_t *parent;  /* borrowed */
    const char *key; /* borrowed from the parent; NULL: the parent is an array */
    size_t index;
    json_t *value; /* borrowed from the parent */
};

struct places {
    struct place at[MAX_PLACES];
    size_t n;
};

/* Adds the values of an array or object, but not the values inside them. */
static void add_places(struct places *p, json_t *parent)
{
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach(parent, i, value)
    {
        if (p->n < MAX_PLACES)
            p->at[p->n++] = (struct place){parent, NULL, i, value};
    }
    json_object_foreach(parent, key, value)
    {
        if (p->n < MAX_PLACES)
            p->at[p->n++] = (struct place){parent, key, 0, value};
    }
}

/* Lists the values at all levels inside a container. */
static void list_places(struct places *p, json_t *root)
{
    p->n = 0;
    add_places(p, root);
    for (size_t i = 0; i < p->n; i++)
        add_places(p, p->at[i].value);
}

/* Replaces the value of a place.  Takes `value`. */
static void replace(const struct place *at, json_t *value)
{
    if (at->key == NULL)
        json_array_set_new(at->parent, at->index, value);
    else
        json_object_set_new_nocheck(at->parent, at->key, value);
}

/* -- edits --------------------------------------------------------------------------------- */

static json_t *changed_number(json_int_t old, struct random_numbers *r)
{
    static const json_int_t notable[] = {0,
                                         1,
                                         -1,
                                         2,
                                         3,
                                         4,
                                         8,
                                         255,
                                         256,
                                         65535,
                                         65536,
                                         INT32_MAX,
                                         (json_int_t)INT32_MAX + 1,
                                         UINT32_MAX,
                                         (json_int_t)UINT32_MAX + 1,
                                         (json_int_t)1 << 53,
                                         INT64_MAX / 4,
                                         INT64_MAX};
    switch (random_below(r, 6)) {
    case 0:
        return json_integer(notable[random_below(r, sizeof notable / sizeof notable[0])]);
    case 1:
        return json_integer(old < INT64_MAX ? old + 1 : old);
    case 2:
        return json_integer(old > INT64_MIN ? old - 1 : old);
    case 3:
        return json_integer(old / 2);
    case 4:
        return json_integer(old < INT64_MAX / 2 && old > INT64_MIN / 2 ? 2 * old : old);
    }
    return json_integer(random_below(r, 16));
}

/* Returns a changed string, or NULL if the changed bytes are not UTF-8. */
static json_t *changed_string(const char *old)
{
    uint8_t bytes[MAX_STRING];
    size_t n = strlen(old);
    if (n > sizeof bytes / 2)
        return NULL;
    memcpy(bytes, old, n);
    n = LLVMFuzzerMutate(bytes, n, sizeof bytes);
    return json_stringn((const char *)bytes, n);
}

static json_t *other_type(struct random_numbers *r)
{
    switch (random_below(r, 7)) {
    case 0:
        return json_null();
    case 1:
        return json_true();
    case 2:
        return json_false();
    case 3:
        return json_real(random_below(r, 2) == 0 ? 0.5 : 1e300);
    case 4:
        return json_array();
    case 5:
        return json_object();
    }
    return json_string("");
}

static json_t *changed_value(const json_t *old, struct random_numbers *r)
{
    if (random_below(r, 8) == 0)
        return other_type(r);
    if (json_is_integer(old))
        return changed_number(json_integer_value(old), r);
    if (json_is_string(old))
        return changed_string(json_string_value(old));
    if (json_is_boolean(old))
        return json_boolean(!json_is_true(old));
    return other_type(r);
}

/* Adds a copy of a value beside it: another element, or another key. */
static void copy_value(const struct place *at, struct random_numbers *r)
{
    json_t *copy = json_deep_copy(at->value);
    if (at->key == NULL) {
        json_array_insert_new(at->parent, random_below(r, (uint32_t)at->index + 2), copy);
        return;
    }
    json_t *key = changed_string(at->key);
    if (key != NULL)
        json_object_set_nocheck(at->parent, json_string_value(key), copy);
    json_decref(key);
    json_decref(copy);
}

static void remove_value(const struct place *at)
{
    if (at->key == NULL)
        json_array_remove(at->parent, at->index);
    else
        json_object_del(at->parent, at->key);
}

static void exchange(const struct place *a, const struct place *b)
{
    json_t *from_a = json_deep_copy(a->value), *from_b = json_deep_copy(b->value);
    replace(a, from_b);
    if (b->parent == a->parent) /* else the first replacement may have freed b */
        replace(b, from_a);
    else
        json_decref(from_a);
}

static void edit_once(json_t *root, struct random_numbers *r)
{
    static struct places p;
    list_places(&p, root);
    if (p.n == 0)
        return;
    const struct place *at = &p.at[random_below(r, (uint32_t)p.n)];
    const struct place *other = &p.at[random_below(r, (uint32_t)p.n)];
    switch (random_below(r, 8)) {
    case 0:
        remove_value(at);
        return;
    case 1:
    case 2:
        copy_value(at, r);
        return;
    case 3:
        exchange(at, other);
        return;
    case 4:
        replace(at, json_deep_copy(other->value));
        return;
    }
    json_t *changed = changed_value(at->value, r);
    if (changed != NULL)
        replace(at, changed);
}

void edit_json(json_t *root, struct random_numbers *r)
{
    for (uint32_t n = 1 + random_below(r, 3); n > 0; n--)
        edit_once(root, r);
}

size_t mutate_json_text(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct random_numbers r = {seed, 0};
    json_t *root = random_below(&r, 4) == 0 ? NULL : json_loadb((char *)data, size, 0, NULL);
    if (root == NULL)
        return LLVMFuzzerMutate(data, size, max_size);
    edit_json(root, &r);
    char *text = json_dumps(root, JSON_COMPACT);
    size_t n = text == NULL ? 0 : put_text(data, max_size, text, strlen(text));
    free(text);
    json_decref(root);
    return n > 0 ? n : LLVMFuzzerMutate(data, size, max_size);
}

uint64_t count_elements(const json_t *tensor, uint64_t max)
{
    uint64_t n = 1;
    const json_t *dim;
    size_t i;
    json_array_foreach(json_object_get(tensor, "shape"), i, dim)
    {
        json_int_t size = json_integer_value(dim);
        n = size >= 0 && (uint64_t)size <= max ? n * (uint64_t)size : 0;
        n = n <= max ? n : 0;
    }
    return n;
}
