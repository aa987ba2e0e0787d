/* Reads costs from a YAML file. */
#include "config/costfile.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/yaml.h"

struct cost_reader {
    yaml_document_t *document;
    const char *source;
    struct wf_units *times, *amounts;
    struct weft_error *err;
};

/* A key and the destination of its values. */
struct entry {
    const char *key;
    struct weft_values *list;
    double *number; /* destination of a single number; NULL if `list` is the destination */
    double min_value;
    enum wf_quantity quantity;
};

static enum weft_status fail_at(const struct cost_reader *r, const yaml_node_t *node,
                                const char *what, const char *about)
{
    return wf_yaml_fail_at(r->source, node, what, about, r->err);
}

static enum weft_status read_number(const struct cost_reader *r, const yaml_node_t *node,
                                    const struct entry *e, double *out)
{
    if (node->type != YAML_SCALAR_NODE)
        return fail_at(r, node, "expected a number", "");
    const char *text = (const char *)node->data.scalar.value;
    const char *end = NULL;
    struct wf_amount amount;
    enum wf_amount_result result = wf_amount_read(text, e->quantity, &amount, &end);
    if (result == WF_AMOUNT_BAD_UNIT)
        return fail_at(r, node,
                       e->quantity == WF_QUANTITY_TIME
                           ? "unknown unit (expected a time, as in 40ms): "
                           : "unknown unit (expected bytes, as in 80GB): ",
                       text);
    if (result != WF_AMOUNT_OK || end != text + node->data.scalar.length)
        return fail_at(r, node, "not a number: ", text);
    double value =
        wf_units_note(e->quantity == WF_QUANTITY_TIME ? r->times : r->amounts, text, amount);
    if (!isfinite(value) || value < e->min_value)
        return fail_at(r, node, "out of range: ", text);
    *out = value;
    return WEFT_OK;
}

static enum weft_status read_list(const struct cost_reader *r, const yaml_node_t *node,
                                  const struct entry *e)
{
    bool several = node->type == YAML_SEQUENCE_NODE;
    size_t n =
        several ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start) : 1;
    double *list = malloc(sizeof *list * (n + 1));
    if (list == NULL)
        return WEFT_FAIL(r->err, WEFT_NOMEM, "no memory for %zu values", n);

    enum weft_status st = n == 0 ? fail_at(r, node, "empty list for ", e->key) : WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        const yaml_node_t *item =
            several ? yaml_document_get_node(r->document, node->data.sequence.items.start[i])
                    : node;
        st = read_number(r, item, e, &list[i]);
    }

    if (st == WEFT_OK)
        *e->list = (struct weft_values){list, n};
    else
        free(list);
    return st;
}

/* Reads a mapping.  Each key must be one of the entries and must occur at most once. */
static enum weft_status read_mapping(const struct cost_reader *r, const yaml_node_t *node,
                                     const struct entry *entries, size_t n,
                                     const yaml_node_t **nested)
{
    unsigned seen = 0;
    if (node->type != YAML_MAPPING_NODE)
        return fail_at(r, node, "expected 'key: value' lines", "");
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(r->document, pair->value);
        const char *name =
            key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "?";

        size_t k = 0;
        while (k < n && strcmp(entries[k].key, name) != 0)
            k++;
        if (k == n)
            return fail_at(
                r, key, "unknown key (expected F, I, W, B, FB, C, mem or mem_limit): ", name);
        if (seen >> k & 1)
            return fail_at(r, key, "given twice: ", name);
        seen |= 1u << k;

        if (entries[k].number != NULL)
            WEFT_TRY(read_number(r, value, &entries[k], entries[k].number));
        else if (entries[k].list != NULL)
            WEFT_TRY(read_list(r, value, &entries[k]));
        else
            *nested = value;
    }
    return WEFT_OK;
}

static enum weft_status read_document(const struct cost_reader *r, struct weft_cost *cost,
                                      struct weft_memory_cost *memory)
{
    const struct entry top[] = {
        {"F", &cost->f, NULL, 0, WF_QUANTITY_TIME},
        {"I", &cost->i, NULL, 0, WF_QUANTITY_TIME},
        {"W", &cost->w, NULL, 0, WF_QUANTITY_TIME},
        {"B", &cost->b, NULL, 0, WF_QUANTITY_TIME},
        {"FB", &cost->fb, NULL, 0, WF_QUANTITY_TIME},
        {"C", NULL, &cost->hop, 0, WF_QUANTITY_TIME},
        {"mem_limit", &memory->limit, NULL, -HUGE_VAL, WF_QUANTITY_BYTES},
        {"mem", NULL, NULL, 0, WF_QUANTITY_PLAIN},
    };
    const struct entry inner[] = {
        {"F", &memory->f, NULL, -HUGE_VAL, WF_QUANTITY_BYTES},
        {"I", &memory->i, NULL, -HUGE_VAL, WF_QUANTITY_BYTES},
        {"W", &memory->w, NULL, -HUGE_VAL, WF_QUANTITY_BYTES},
    };
    const yaml_node_t *root = yaml_document_get_root_node(r->document), *mem = NULL,
                      *none = NULL;

    if (root == NULL)
        return WEFT_FAIL(r->err, WEFT_USAGE,
                         "%.80s: the file is empty; expected costs such as F: 1", r->source);
    WEFT_TRY(read_mapping(r, root, top, WEFT_LEN(top), &mem));
    return mem == NULL ? WEFT_OK : read_mapping(r, mem, inner, WEFT_LEN(inner), &none);
}

enum weft_status wf_costfile_parse(const char *text, size_t len, const char *source,
                                   struct wf_units *times, struct wf_units *amounts,
                                   struct weft_cost *cost, struct weft_memory_cost *memory,
                                   struct weft_error *err)
{
    yaml_document_t document;
    WEFT_TRY(wf_yaml_load(text, len, source, &document, err));
    struct cost_reader r = {&document, source, times, amounts, err};
    enum weft_status st = read_document(&r, cost, memory);
    yaml_document_delete(&document);
    return st;
}
