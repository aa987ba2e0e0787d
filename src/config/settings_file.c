/* Reads settings from a YAML file. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/settings.h"
#include "config/settings_priv.h"
#include "config/yaml.h"

struct settings_reader {
    struct wf_setting_list list;
    yaml_document_t *document;
    const char *source;
    void *settings;
    bool *given; /* one element per row: the key was given */
    struct weft_error *err;
};

static enum weft_status fail_at(const struct settings_reader *r, const yaml_node_t *node,
                                const char *what, const char *about)
{
    return wf_yaml_fail_at(r->source, node, what, about, r->err);
}

static const yaml_node_t *node_at(const struct settings_reader *r, int index)
{
    return yaml_document_get_node(r->document, index);
}

/* Returns true if the node is "", "~" or "null" without quotes. */
static bool is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *text = (const char *)node->data.scalar.value;
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* Reads a scalar; a scalar that contains a NUL is an error. */
static enum weft_status read_scalar(const struct settings_reader *r, const yaml_node_t *node,
                                    const char *what, const char **out)
{
    if (node->type != YAML_SCALAR_NODE)
        return fail_at(r, node, "expected a single value, not a list or a mapping: ", what);
    const char *text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length)
        return fail_at(r, node, "NUL character in ", what);
    *out = text;
    return WEFT_OK;
}

static enum weft_status read_key(const struct settings_reader *r, const char *section,
                                 const yaml_node_t *key_node, const yaml_node_t *value_node)
{
    const char *key = NULL, *value = NULL;
    char place[WF_YAML_LOCATION], where[WF_YAML_LOCATION + WF_SETTING_NAME + 2];
    bool in_section;

    WEFT_TRY(read_scalar(r, key_node, "a key", &key));
    const struct wf_setting *row =
        wf_setting_find_key(r->list, section, strlen(section), key, &in_section);
    wf_yaml_location(r->source, key_node, place);
    if (row == NULL)
        return wf_setting_fail_unknown(r->list, place, section, key, r->err);
    if (r->given[row - r->list.at])
        return fail_at(r, key_node, "given twice: ", key);
    r->given[row - r->list.at] = true;

    WEFT_TRY(read_scalar(r, value_node, key, &value));
    wf_yaml_location(r->source, value_node, place);
    snprintf(where, sizeof where, "%s: %s.%s", place, row->section, row->key);
    if (row->type == WF_SETTING_STRING && is_null(value_node))
        value = "";
    return wf_setting_store(row, value, where, r->settings, r->err);
}

static enum weft_status read_section(const struct settings_reader *r,
                                     const yaml_node_t *name_node, const yaml_node_t *node)
{
    const char *name = NULL;
    bool known;
    WEFT_TRY(read_scalar(r, name_node, "the name of a section", &name));
    wf_setting_find_key(r->list, name, strlen(name), "", &known);
    if (!known) {
        char place[WF_YAML_LOCATION];
        wf_yaml_location(r->source, name_node, place);
        return wf_setting_fail_unknown(r->list, place, name, "", r->err);
    }
    if (is_null(node))
        return WEFT_OK;
    if (node->type != YAML_MAPPING_NODE)
        return fail_at(r, node, "expected 'key: value' lines in section ", name);
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++)
        WEFT_TRY(read_key(r, name, node_at(r, pair->key), node_at(r, pair->value)));
    return WEFT_OK;
}

/* Checks that no section is given twice.  There are few sections, so all pairs are compared. */
static enum weft_status check_sections(const struct settings_reader *r, const yaml_node_t *root)
{
    const yaml_node_pair_t *start = root->data.mapping.pairs.start;
    for (const yaml_node_pair_t *a = start; a < root->data.mapping.pairs.top; a++) {
        const char *name = NULL, *before = NULL;
        WEFT_TRY(read_scalar(r, node_at(r, a->key), "the name of a section", &name));
        if ((size_t)(a - start) > r->list.n)
            return fail_at(r, node_at(r, a->key), "too many sections: ", name);
        for (const yaml_node_pair_t *b = start; b < a; b++) {
            WEFT_TRY(read_scalar(r, node_at(r, b->key), "the name of a section", &before));
            if (strcmp(before, name) == 0)
                return fail_at(r, node_at(r, a->key), "section given twice: ", name);
        }
    }
    return WEFT_OK;
}

/* Reads the root of the document.  A file without keys, for example with comments only, changes
 * no settings. */
static enum weft_status read_root(const struct settings_reader *r)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    if (root == NULL || is_null(root))
        return WEFT_OK;
    if (root->type != YAML_MAPPING_NODE)
        return fail_at(r, root, "expected sections with 'key: value' lines", "");
    WEFT_TRY(check_sections(r, root));
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++)
        WEFT_TRY(read_section(r, node_at(r, pair->key), node_at(r, pair->value)));
    return WEFT_OK;
}

enum weft_status wf_settings_parse(struct wf_setting_list list, const char *text, size_t len,
                                   const char *source, void *settings, struct weft_error *err)
{
    yaml_document_t document;
    WEFT_TRY(wf_yaml_load(text, len, source, &document, err));
    struct settings_reader r = {
        list, &document, source, settings, calloc(list.n + 1, sizeof(bool)), err};
    enum weft_status st = r.given == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to read %.80s", source)
                              : read_root(&r);
    free(r.given);
    yaml_document_delete(&document);
    return st;
}
