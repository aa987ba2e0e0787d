/* Loads YAML documents. */
#include "config/yaml.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "base/printable.h"

enum { MAX_BYTES = 64 << 20, MAX_DEPTH = 1000, MAX_ANCHORS = 1000, MAX_DIRECTIVES = 100 };

/* Refuses a text for which libyaml takes quadratic time: it compares every anchor and every
 * directive with all earlier ones, and visits all open brackets at every token.  Characters in
 * strings and comments count as well, since the limits are far beyond any settings. */
static enum weft_status check_time(const char *text, size_t len, const char *source,
                                   struct weft_error *err)
{
    size_t depth = 0, max_depth = 0, n_anchors = 0, n_directives = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        depth += c == '[' || c == '{';
        depth -= (c == ']' || c == '}') && depth > 0;
        max_depth = depth > max_depth ? depth : max_depth;
        n_anchors += c == '&';
        n_directives += c == '%' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r');
    }

    const struct {
        const char *what;
        size_t n, max;
    } limits[] = {{"nested brackets", max_depth, MAX_DEPTH},
                  {"anchors (&)", n_anchors, MAX_ANCHORS},
                  {"directives (%)", n_directives, MAX_DIRECTIVES}};
    for (size_t i = 0; i < WEFT_LEN(limits); i++)
        if (limits[i].n > limits[i].max)
            return WEFT_FAIL(err, WEFT_USAGE, "%.80s: too many %s (%zu; maximum %zu)", source,
                             limits[i].what, limits[i].n, limits[i].max);
    return WEFT_OK;
}

void wf_yaml_location(const char *source, const yaml_node_t *node, char *out)
{
    snprintf(out, WF_YAML_LOCATION, "%.80s:%zu:%zu", source, node->start_mark.line + 1,
             node->start_mark.column + 1);
}

enum weft_status wf_yaml_fail_at(const char *source, const yaml_node_t *node, const char *what,
                                 const char *about, struct weft_error *err)
{
    char place[WF_YAML_LOCATION];
    wf_yaml_location(source, node, place);
    return WEFT_FAIL(err, WEFT_USAGE, "%s: %s%.60s", place, what, wf_printable(about).at);
}

/* Returns the position of an error.  For bytes that are not text, libyaml reports only an
 * offset, so line and column are counted here. */
static yaml_mark_t mark_of(const yaml_parser_t *parser, const char *text, size_t len)
{
    yaml_mark_t mark = parser->problem_mark;
    if (parser->error != YAML_READER_ERROR)
        return mark;
    mark.line = mark.column = 0;
    for (size_t i = 0; i < len && i < parser->problem_offset; i++) {
        mark.column = text[i] == '\n' ? 0 : mark.column + 1;
        mark.line += text[i] == '\n';
    }
    return mark;
}

/* libyaml reports some failed allocations without an error code.  A syntax error always has a
 * description. */
static bool lacks_memory(const yaml_parser_t *parser)
{
    return parser->error == YAML_MEMORY_ERROR || parser->problem == NULL;
}

static enum weft_status fail_parse(const yaml_parser_t *parser, const char *text, size_t len,
                                   const char *source, struct weft_error *err)
{
    yaml_mark_t mark = mark_of(parser, text, len);
    if (lacks_memory(parser))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to read %.80s", source);
    return WEFT_FAIL(err, WEFT_USAGE, "%.80s:%zu:%zu: %s", source, mark.line + 1,
                     mark.column + 1, parser->problem);
}

/* Rejects a second document, which would otherwise be ignored silently. */
static enum weft_status check_single(yaml_parser_t *parser, const char *source,
                                     struct weft_error *err)
{
    yaml_document_t more;
    bool read = yaml_parser_load(parser, &more);
    bool empty = read && yaml_document_get_root_node(&more) == NULL;
    if (read)
        yaml_document_delete(&more);
    if (!read && lacks_memory(parser))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to read %.80s", source);
    return empty ? WEFT_OK
                 : WEFT_FAIL(err, WEFT_USAGE,
                             "%.80s: more than one document; nothing may follow ---", source);
}

enum weft_status wf_yaml_load(const char *text, size_t len, const char *source,
                              yaml_document_t *out, struct weft_error *err)
{
    yaml_parser_t parser;
    if (len > MAX_BYTES)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.80s: the file is too large (%zu bytes; maximum %d)", source, len,
                         MAX_BYTES);
    WEFT_TRY(check_time(text, len, source, err));
    if (!yaml_parser_initialize(&parser))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to read %.80s", source);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);

    enum weft_status st;
    if (!yaml_parser_load(&parser, out)) {
        st = fail_parse(&parser, text, len, source, err);
    } else {
        st = check_single(&parser, source, err);
        if (st != WEFT_OK)
            yaml_document_delete(out);
    }

    yaml_parser_delete(&parser);
    return st;
}
