/* Chat templates: an interpreter of the part of Jinja that chat templates use.
 *
 * Blocks are trimmed as transformers does: the newline after a block is removed, and so is the
 * white space before a block at the start of a line.  Templates cannot read files, change their
 * input or run forever: nesting, steps, memory and output are limited.  The time is not known:
 * strftime_now is not defined.  Everything that is not supported is refused with its line.
 */
#ifndef TRAINING_CHAT_TEMPLATE_H
#define TRAINING_CHAT_TEMPLATE_H

#include <jansson.h>

#include "base/text.h"
#include "weft/status.h"

struct wf_template; /* opaque: read-only after parsing, safe to use from any thread */

/* A part of the output: [begin, end). */
struct wf_template_span {
    size_t begin, end;
};

/* The output of a template.  A zeroed struct is empty. */
struct wf_template_output {
    struct wf_text text;
    struct wf_template_span *generated; /* owned: output of {% generation %} blocks */
    size_t n_generated;
};

/* Parses a template.  `name` is its name in errors.  The caller owns *out. */
enum weft_status wf_template_parse(const char *text, size_t len, const char *name,
                                   struct wf_template **out, struct weft_error *err);
void wf_template_free(struct wf_template *t); /* NULL is allowed */

/* Returns true if the template has {% generation %} blocks. */
bool wf_template_marks_generation(const struct wf_template *t);

/* Renders a template with the members of the object `variables`.  Appends to *out, which the
 * caller releases on success and on error.  Returns WEFT_DATA if the template raises an error
 * or exceeds a limit; the message has the line. */
enum weft_status wf_template_render(const struct wf_template *t, json_t *variables,
                                    struct wf_template_output *out, struct weft_error *err);
void wf_template_output_release(struct wf_template_output *out);

#endif
