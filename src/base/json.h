/* Writing JSON as it goes: nothing is kept, so millions of events cost no memory.
 *
 *     struct weft_json j = {.out = stdout};
 *     weft_json_begin(&j, NULL, '{');
 *     weft_json_uint(&j, "ranks", 4);
 *     weft_json_begin(&j, "busy", '[');
 *     weft_json_number(&j, NULL, 1.5);
 *     weft_json_end(&j, ']');
 *     weft_json_end(&j, '}');
 *
 * `key` is NULL inside of lists.  Write errors stay in the stream: ask ferror() at the end.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct weft_json {
    FILE *out;   /* borrowed */
    bool comma;  /* something stands before at this level */
    bool failed; /* for callers: something could not be said */
};

void weft_json_begin(struct weft_json *j, const char *key, char bracket);
void weft_json_end(struct weft_json *j, char bracket);
void weft_json_string(struct weft_json *j, const char *key, const char *value);
void weft_json_uint(struct weft_json *j, const char *key, uint64_t value);
void weft_json_bool(struct weft_json *j, const char *key, bool value);

/* The shortest text that reads back as the same double; null for what JSON cannot say. */
void weft_json_number(struct weft_json *j, const char *key, double value);

#endif
