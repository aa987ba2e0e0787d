/* Parses JSON with jansson, and distinguishes invalid text from a lack of memory.
 *
 * jansson ignores failed allocations while it collects the bytes of a string or a number: it
 * then drops bytes and returns a wrong value or an error about the text.  So this module counts
 * the failed allocations of jansson, by a function that it puts before jansson's allocator once
 * per process. */
#ifndef CONFIG_JSON_INPUT_H
#define CONFIG_JSON_INPUT_H

#include <jansson.h>

#include "weft/status.h"

/* Parses `text` with flags of jansson.  If the text is invalid, returns WEFT_OK with *out NULL
 * and the reason in *why, so that the caller reports it.  Returns WEFT_NOMEM, with a message
 * about `source`, if memory ran out.  The caller releases *out with json_decref(). */
enum weft_status wf_json_load(const char *text, size_t len, size_t flags, const char *source,
                              json_t **out, json_error_t *why, struct weft_error *err);

/* Returns the text of a value, which the caller frees, or NULL if there is no memory.  Use it
 * instead of json_dumps(), which drops keys silently without memory. */
char *wf_json_dump(const json_t *value, size_t flags);

#endif
