/* Reads the data files of the tests: fields separated by blanks; '#' starts a comment line. */
#ifndef TESTS_SCHED_LINES_H
#define TESTS_SCHED_LINES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FIELDS = 24 };

struct lines {
    FILE *in;
    char text[8192];
    char *fields[MAX_FIELDS];
    int n, number;
};

static inline void lines_open(struct lines *l, const char *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", WEFT_TEST_DATA, file);
    *l = (struct lines){.in = fopen(path, "r")};
    assert_non_null(l->in);
}

/* Reads the next line.  Returns 0 and closes the file at its end. */
static inline int lines_next(struct lines *l)
{
    while (fgets(l->text, sizeof l->text, l->in) != NULL) {
        l->number++;
        if (l->text[0] == '#')
            continue;
        l->n = 0;
        for (char *at = strtok(l->text, " \n"); at != NULL && l->n < MAX_FIELDS;
             at = strtok(NULL, " \n"))
            l->fields[l->n++] = at;
        return 1;
    }
    fclose(l->in);
    return 0;
}

static inline double lines_number(const struct lines *l, int i)
{
    return strtod(l->fields[i], NULL);
}

static inline uint32_t lines_count(const struct lines *l, int i)
{
    return (uint32_t)strtoul(l->fields[i], NULL, 10);
}

/* Parses a list such as "4,3,2" into out.  Returns the number of values. */
static inline size_t lines_list(const struct lines *l, int i, double *out, size_t capacity)
{
    size_t n = 0;
    for (char *at = l->fields[i]; *at != '\0' && n < capacity; at += *at == ',')
        out[n++] = strtod(at, &at);
    return n;
}

static inline uint64_t fnv_add(uint64_t h, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

#define FNV_START UINT64_C(0xcbf29ce484222325)

#define fail_line(lines, ...)                                                                  \
    do {                                                                                       \
        print_error("line %d: ", (lines)->number);                                             \
        print_error(__VA_ARGS__);                                                              \
        print_error("\n");                                                                     \
        fail();                                                                                \
    } while (0)

#endif
