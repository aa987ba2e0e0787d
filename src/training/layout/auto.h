/* Choosing how to divide a run: from what passes take on this machine to pipeline ranks, replicas,
 * stages, schedule and threads.
 *
 *     wf_auto_probe_init(&probe, &settings, &model, &err);
 *     wf_auto_measure(comm, &probe, threads, &profile, &err);       for each number of threads
 *     wf_auto_choose(&settings, &model, &machine, &list, &err);     the best first
 *     wf_auto_candidates_release(&list);
 *
 * Bits do not depend on the choice, so it may be made by the clock.  Only micros are never chosen
 * by their time: they are part of what is computed.  (The program raises those that nobody gave
 * where nothing can be run otherwise.) */
#ifndef TRAINING_LAYOUT_AUTO_H
#define TRAINING_LAYOUT_AUTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"
#include "training/settings/settings.h"
#include "weft/comm.h"
#include "weft/spec.h"
#include "weft/status.h"

/* Seconds that the passes of one item take for one micro. */
struct wf_auto_times {
    double f, i, w, b;
};

/* What a rank of so many threads needs, while all cores are at work. */
struct wf_auto_profile {
    uint32_t threads;
    struct wf_auto_times embedding, layer, head;
    /* Seconds an element: norm, update and packing of an own one, packing of one that another
     * rank updated, and adding one of another rank's gradients. */
    double update, pack, sum;
};

struct wf_auto_machine {
    uint32_t ranks; /* that were started; 0: as many threads of this process as are best */
    uint32_t cores; /* of all ranks together */
    uint32_t ranks_per_host; /* that share `bytes`; 0: all */
    size_t bytes;            /* of memory; 0: enough for anything */
    bool copies;             /* messages are copied: they need memory */
    double hop;              /* seconds from rank to rank, however short the message is */
    double link;             /* seconds a byte besides; 0: messages are handed over */
    const struct wf_auto_profile *profiles; /* borrowed: by threads, ascending */
    size_t n_profiles;
};

/* One way to do it. */
struct wf_auto_candidate {
    uint32_t pp, dp, chunks, threads; /* chunks 0: the schedule's own number */
    const char *schedule;             /* borrowed: the settings' or a generator's name */
    double seconds;                   /* of a step: the two below */
    double pipeline, update;          /* the micros; sums between ranks and the update */
    double bubble;
    double
        gap; /* of the chosen one: what is left to gain in `pipeline` by another order, proven */
    size_t rank_bytes, total_bytes; /* of the fullest rank; of all */
};

struct wf_auto_candidates {
    struct wf_auto_candidate *at; /* owned: the chosen one, then the others by their time */
    size_t n;
    double fastest; /* seconds of the fastest: the chosen one may be a little slower */
    size_t n_tried, n_over_limit; /* timed; over the memory */
    size_t n_pruned; /* divisions into ranks that were not looked at: twice as long at best */
    size_t least_bytes;  /* of those that were: all ranks of the smallest */
    uint32_t min_micros; /* when nothing can be run: the fewest that may; 0: none would help */
};

/* What is as fast as the fastest, measured as it is. */
#define WF_AUTO_TOLERANCE 1.02

/* All ways that fit the ranks, the model, the micros and the memory, and keep to what is given.
 * The first is the one with the fewest ranks, then the least memory, of those that are about as
 * fast as the fastest.  WEFT_USAGE when nothing can be run, with the reason of the first that
 * was tried, and out->min_micros; WEFT_NOMEM when nothing fits.  Local. */
enum weft_status wf_auto_choose(const struct wf_train_settings *s,
                                const struct weft_model *model,
                                const struct wf_auto_machine *machine,
                                struct wf_auto_candidates *out, struct weft_error *err);
void wf_auto_candidates_release(struct wf_auto_candidates *list); /* a zeroed one is allowed */

/* -- measuring ------------------------------------------------------------------------------ */

/* The model in small: one layer, part of the vocabulary, few tokens; and what is to be made of its
 * times. */
struct wf_auto_probe {
    struct weft_model model;
    uint32_t rows, seq;
    struct weft_item scale[3]; /* embedding, layer, head: true operations by those measured */
    size_t bytes;              /* that one measurement takes, about */
    enum wf_dtype precision;
    bool fast_sums;
    uint32_t recompute;
};

enum weft_status wf_auto_probe_init(struct wf_auto_probe *probe,
                                    const struct wf_train_settings *s,
                                    const struct weft_model *model, struct weft_error *err);

/* Every rank of comm measures at once, as they will work; each gets its own figures.
 * Collective. */
enum weft_status wf_auto_measure(struct weft_comm *comm, const struct wf_auto_probe *probe,
                                 uint32_t threads, struct wf_auto_profile *out,
                                 struct weft_error *err);

/* The way from rank 0 to the last one and back: *hop and *link as above, on rank 0; 0 with one
 * rank.  Collective. */
enum weft_status wf_auto_measure_hops(struct weft_comm *comm, double *hop, double *link,
                                      struct weft_error *err);

/* The numbers of threads worth measuring where `cores` are for ranks of which there are at least
 * `ranks`, ascending; gives how many.  A given number is the only one. */
enum { WF_AUTO_MAX_PROFILES = 16 };
size_t wf_auto_thread_counts(uint32_t cores, uint32_t ranks, uint32_t given,
                             uint32_t out[WF_AUTO_MAX_PROFILES]);

#endif
