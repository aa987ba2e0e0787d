/* The candidates of a search for layouts, and the loop that scores them.  There are two
 * searches: weft_tune_layouts() for a model on a cluster, and wf_auto_choose() for a run on
 * this machine.  Both enumerate their candidates here.  Each has a source, which supplies
 * schedules, times and memory: from operation counts and links, or from measurements and the
 * topology of the run. */
#ifndef PLANNING_TUNE_LAYOUT_SPACE_H
#define PLANNING_TUNE_LAYOUT_SPACE_H

#include "weft/bound.h"
#include "weft/schedule.h"

struct wf_layout_candidate {
    uint32_t ranks, replicas; /* ranks per pipeline; number of pipelines */
    bool replicas_adjacent;
    uint32_t rows, micros; /* of one pipeline; 0 if the space has no global batch */
    uint32_t variant;      /* 0 .. n_variants - 1; its meaning is the source's */
    /* Borrowed: a generator, or what the source's schedule() returned. */
    const char *schedule;
    bool balanced;   /* balanced partition; false: even */
    uint32_t chunks; /* stages per rank; 0: the schedule's default */
};

enum wf_layout_generators { WF_LAYOUT_ALL, WF_LAYOUT_NOT_SEARCHING, WF_LAYOUT_SEARCHING };

/* What to enumerate. */
struct wf_layout_space {
    uint32_t min_total, max_total; /* ranks of all pipelines together */
    uint32_t ranks, replicas;      /* the only values to try; 0: any */
    bool adjacent;                 /* also with adjacent replicas */
    uint32_t global_batch;         /* sequences per step, in equal micros; 0: given otherwise */
    uint32_t n_variants;
    enum wf_layout_generators generators;
    bool even;       /* also with even partitions */
    uint32_t chunks; /* the only number to try; 0: all numbers that follow */
    /* For generators that take a number of chunks.  min_chunks 0: the generator's default. */
    uint32_t min_chunks, max_chunks;
    uint64_t max_cells; /* of a schedule; 0: unlimited */
};

/* A candidate with its schedule and the times of its stages. */
struct wf_layout_built {
    struct weft_schedule *schedule; /* the source decides who owns it */
    const struct weft_cost *cost;
};

struct wf_layout_score {
    bool fits; /* into memory; if not, only the bytes are known */
    size_t peak_bytes;
    double makespan, span, bubble, reduction;
    double time; /* of a step: makespan (or span) plus reduction */
};

/* Supplies everything that depends on the kind of search.  `user` is passed to all functions.
 * A function may be NULL only if its comment allows it. */
struct wf_layout_source {
    void *user;
    enum weft_minimize minimize;
    /* Returns whether this number of ranks is tried.  May be NULL: yes. */
    bool (*has_total)(void *user, uint32_t total);
    /* Begins the candidates with the same ranks, micros and variant.  Sets *skip to true if
     * they are impossible or too slow. */
    enum weft_status (*begin)(void *user, const struct wf_layout_candidate *c, bool *skip,
                              struct weft_error *err);
    /* Returns the only schedule to try, or NULL for all generators.  May be NULL. */
    const char *(*schedule)(void *user, const struct wf_layout_candidate *c);
    /* Returns false if the search must stop.  `share` is the part of the current ranks, micros
     * and variant that is done.  May be NULL. */
    bool (*continues)(void *user, const struct wf_layout_candidate *c, double share);
    /* Builds a candidate.  Sets *found to false, and builds nothing, if it is impossible. */
    enum weft_status (*build)(void *user, const struct wf_layout_candidate *c,
                              struct wf_layout_built *out, bool *found, struct weft_error *err);
    /* Sets fits, peak_bytes and reduction. */
    enum weft_status (*measure)(void *user, const struct wf_layout_candidate *c,
                                const struct wf_layout_built *built,
                                struct wf_layout_score *score, struct weft_error *err);
    /* Receives the score of every candidate that was built. */
    enum weft_status (*keep)(void *user, const struct wf_layout_candidate *c,
                             struct wf_layout_built *built, const struct wf_layout_score *score,
                             struct weft_error *err);
    /* Frees what build() made and keep() has not taken. */
    void (*release)(void *user, struct wf_layout_built *built);
};

/* Scores all candidates, until continues() returns false. */
enum weft_status wf_layout_space_search(const struct wf_layout_space *space,
                                        const struct wf_layout_source *source,
                                        struct weft_error *err);

/* Scores the schedules, partitions and chunks of one candidate, whose other fields are set. */
enum weft_status wf_layout_space_try(const struct wf_layout_space *space,
                                     const struct wf_layout_source *source,
                                     struct wf_layout_candidate c, struct weft_error *err);

/* Counts the calls of begin(). */
size_t wf_layout_space_count(const struct wf_layout_space *space,
                             const struct wf_layout_source *source);

/* Scores a candidate that was built, passes it to keep() and releases it. */
enum weft_status wf_layout_score(const struct wf_layout_source *source,
                                 const struct wf_layout_candidate *c,
                                 struct wf_layout_built *built, struct weft_error *err);

#endif
