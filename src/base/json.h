/* A streaming JSON writer: it keeps no document in memory.
 *
 *     struct wf_json j = {.out = stdout};
 *     wf_json_begin(&j, NULL, '{');
 *     wf_json_uint(&j, "ranks", 4);
 *     wf_json_begin(&j, "busy", '[');
 *     wf_json_number(&j, NULL, 1.5);
 *     wf_json_end(&j, ']');
 *     wf_json_end(&j, '}');
 *
 * `key` is NULL within lists.  Write errors are reported by ferror() of the stream.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct wf_json {
    FILE *out;   /* borrowed */
    bool comma;  /* true if a value was already written at this level */
    bool failed; /* set by callers that could not compute a value */
};

/* Begins an object or a list; `bracket` is '{' or '['. */
void wf_json_begin(struct wf_json *j, const char *key, char bracket);

/* Ends an object or a list; `bracket` is '}' or ']'. */
void wf_json_end(struct wf_json *j, char bracket);

/* Writes a string. */
void wf_json_string(struct wf_json *j, const char *key, const char *value);

/* Writes a whole number. */
void wf_json_uint(struct wf_json *j, const char *key, uint64_t value);

/* Writes true or false. */
void wf_json_bool(struct wf_json *j, const char *key, bool value);

/* Writes the shortest text that reads back as the same double, or null if `value` is not
 * finite. */
void wf_json_number(struct wf_json *j, const char *key, double value);

#endif
