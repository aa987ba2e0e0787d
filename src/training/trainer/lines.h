/* Compares texts line by line. */
#ifndef TRAINING_TRAINER_LINES_H
#define TRAINING_TRAINER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns the length of the first line, without its newline. */
static inline size_t wf_line_length(const char *text)
{
    return strcspn(text, "\n");
}

/* Returns the start of the second line, or the end of the text. */
static inline const char *wf_line_next(const char *text)
{
    text += wf_line_length(text);
    return *text == '\n' ? text + 1 : text;
}

/* Advances both texts to the next line in which they differ.  Returns false if a text ends
 * before a difference is found. */
static inline bool wf_lines_find_difference(const char **a, const char **b)
{
    for (; **a != '\0' && **b != '\0'; *a = wf_line_next(*a), *b = wf_line_next(*b)) {
        size_t n = wf_line_length(*a);
        if (n != wf_line_length(*b) || memcmp(*a, *b, n) != 0)
            return true;
    }
    return false;
}

#endif
