/* Loads one YAML document and reports errors with line and column. */
#ifndef CONFIG_YAML_H
#define CONFIG_YAML_H

#include <stddef.h>
#include <yaml.h>

#include "weft/status.h"

/* Loads the only document of a text.  Returns WEFT_USAGE with line and column if the text is
 * not YAML, has several documents or is too large.  The caller frees *out with
 * yaml_document_delete().
 *
 * An alias refers to the original node, so aliases cannot enlarge a document; tags are ignored.
 * libyaml limits the nesting depth, and the callers descend only a few levels. */
enum weft_status wf_yaml_load(const char *text, size_t len, const char *source,
                              yaml_document_t *out, struct weft_error *err);

enum { WF_YAML_LOCATION = 128 };

/* Writes "source:line:column", truncated to WF_YAML_LOCATION characters. */
void wf_yaml_location(const char *source, const yaml_node_t *node, char *out);

/* Fails with WEFT_USAGE and "source:line:column: <what><about>". */
enum weft_status wf_yaml_fail_at(const char *source, const yaml_node_t *node, const char *what,
                                 const char *about, struct weft_error *err);

#endif
