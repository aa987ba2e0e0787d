/* Loading one YAML document, and errors that say where in it. */
#ifndef CONFIG_YAML_H
#define CONFIG_YAML_H

#include <stddef.h>
#include <yaml.h>

#include "weft/status.h"

/* The one document of a text; yaml_document_delete() frees it.  What is no YAML, is several
 * documents or is beyond any size of settings is WEFT_USAGE with line and column.
 *
 * An alias stands for the very node it names, so nothing can grow; tags are left unread.  Nesting
 * is bounded by libyaml, and no reader of ours goes down more than a few levels. */
enum weft_status wf_yaml_load(const char *text, size_t len, const char *source,
                              yaml_document_t *out, struct weft_error *err);

/* "source:line:column", cut to fit. */
enum { WF_YAML_LOCATION = 128 };
void wf_yaml_location(const char *source, const yaml_node_t *node, char *out);

#endif
