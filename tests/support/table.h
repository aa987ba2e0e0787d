/* A schedule that tests can modify: rows of cells, like the text form. */
#ifndef SUPPORT_TABLE_H
#define SUPPORT_TABLE_H

#include "base/random.h"
#include "base/text.h"
#include "weft/schedule.h"

enum { TABLE_RANKS = 8, TABLE_CELLS = 512 };

struct cell {
    struct weft_action a, b; /* b: the other half of an overlapped pair */
    bool pair;
};

struct table {
    uint32_t n_ranks;
    struct {
        struct cell at[TABLE_CELLS];
        size_t n;
    } row[TABLE_RANKS];
};

/* A position in a stream of random numbers. */
struct dice {
    uint64_t seed, stream, position;
};

static inline uint32_t dice_below(struct dice *d, uint32_t n)
{
    return wf_random_below(d->seed, d->stream, d->position++, n);
}

/* Returns true with probability 1/n. */
static inline bool dice_once_in(struct dice *d, uint32_t n)
{
    return dice_below(d, n) == 0;
}

/* Copies a schedule into a table.  Returns false if the schedule does not fit. */
bool table_read(struct table *t, const struct weft_schedule *s);

void table_insert(struct table *t, uint32_t rank, size_t at, struct cell c);
void table_remove(struct table *t, uint32_t rank, size_t at);

/* Prints the rows as text, independently of the printer of sched. */
void table_print(const struct table *t, const char *newline, struct wf_text *out);

/* Applies one random change, after which the schedule may be valid or not. */
void table_mutate(struct table *t, struct dice *d);

/* The shape of a valid schedule in random order: any placement, several pipes, split and
 * whole backwards, overlapped pairs.  With messages, the receives of a channel have the
 * order of its sends, unless `careless` is set. */
struct random_shape {
    uint32_t ranks, stages, micros, pipes;
    bool messages, careless;
};

void table_random(struct table *t, struct random_shape shape, struct dice *d);

#endif
