/* Reads recorded cases: fields separated by blanks, then texts, each after " | ". */
#ifndef TESTS_REFERENCE_RECORDS_H
#define TESTS_REFERENCE_RECORDS_H

#include "sched/lines.h"

enum { MAX_TEXTS = 3 };

struct records {
    struct lines l;
    char whole[8192]; /* the line; `texts` point into it */
    char *texts[MAX_TEXTS];
    int n_texts;
};

static inline void records_open(struct records *r, const char *file)
{
    lines_open(&r->l, file);
}

/* Reads the next case.  Returns 0 and closes the file at its end. */
static inline int records_next(struct records *r)
{
    do {
        if (fgets(r->whole, sizeof r->whole, r->l.in) == NULL)
            return fclose(r->l.in), 0;
        r->l.number++;
    } while (r->whole[0] == '#');
    r->whole[strcspn(r->whole, "\n")] = '\0';

    r->n_texts = 0;
    for (char *at = r->whole; (at = strstr(at, " | ")) != NULL;) {
        assert_true(r->n_texts < MAX_TEXTS);
        *at = '\0';
        at += 3;
        r->texts[r->n_texts++] = at;
    }
    r->l.n = 0;
    for (char *at = strtok(r->whole, " "); at != NULL && r->l.n < MAX_FIELDS;
         at = strtok(NULL, " "))
        r->l.fields[r->l.n++] = at;
    return 1;
}

static inline uint64_t records_number(const struct records *r, int field)
{
    return strtoull(r->l.fields[field], NULL, 10);
}

#endif
