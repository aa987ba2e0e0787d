/* Lists of words such as "text|csv|pytorch". */
#ifndef CONFIG_CHOICE_H
#define CONFIG_CHOICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Finds `value` in a list of words and stores its index in *out.  Returns false if the list
 * does not contain `value`. */
static inline bool wf_choice_find(const char *choices, const char *value, uint32_t *out)
{
    size_t n = strlen(value);
    uint32_t k = 0;
    for (const char *at = choices; *at != '\0'; k++) {
        size_t len = strcspn(at, "|");
        if (len == n && memcmp(at, value, n) == 0) {
            *out = k;
            return true;
        }
        at += len + (at[len] == '|');
    }
    return false;
}

/* Returns the index of `value` in a list of words; 0, the default, if `value` is NULL. */
static inline uint32_t wf_choice_index(const char *choices, const char *value)
{
    uint32_t index = 0;
    if (value != NULL)
        wf_choice_find(choices, value, &index);
    return index;
}

#endif
