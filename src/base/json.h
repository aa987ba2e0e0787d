/* Writing JSON as it goes: nothing is kept, so millions of events cost no memory.
 *
 *     struct wf_json j = {.out = stdout};
 *     wf_json_begin(&j, NULL, '{');
 *     wf_json_uint(&j, "ranks", 4);
 *     wf_json_begin(&j, "busy", '[');
 *     wf_json_number(&j, NULL, 1.5);
 *     wf_json_end(&j, ']');
 *     wf_json_end(&j, '}');
 *
 * `key` is NULL inside of lists.  Write errors stay in the stream: ask ferror() at the end.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct wf_json {
    FILE *out;   /* borrowed */
    bool comma;  /* something stands before at this level */
    bool failed; /* for callers: something could not be said */
};

void wf_json_begin(struct wf_json *j, const char *key, char bracket);
void wf_json_end(struct wf_json *j, char bracket);
void wf_json_string(struct wf_json *j, const char *key, const char *value);
void wf_json_uint(struct wf_json *j, const char *key, uint64_t value);
void wf_json_bool(struct wf_json *j, const char *key, bool value);

/* The shortest text that reads back as the same double; null for what JSON cannot say. */
void wf_json_number(struct wf_json *j, const char *key, double value);

#endif
