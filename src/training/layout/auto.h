/* Chooses the layout of a run: pipeline ranks, replicas, chunks, schedule and threads, from times
 * measured on this machine.
 *
 *     wf_auto_probe_init(&probe, &settings, &model, &err);
 *     wf_auto_measure(comm, &probe, threads, &profile, &err);       for each number of threads
 *     wf_auto_choose(&settings, &model, &machine, &list, &err);     the best first
 *     wf_auto_candidates_release(&list);
 *
 * The results of training do not depend on the choice, so it may depend on measured times.  The
 * number of micros changes the results and is never chosen by time.  (The program raises a
 * default number if no layout can run otherwise.) */
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

/* Seconds of the passes over one item for one micro. */
struct wf_auto_times {
    double f, i, w, b;
};

/* Times of a rank with this number of threads while all cores are busy. */
struct wf_auto_profile {
    uint32_t threads;
    struct wf_auto_times embedding, layer, head;
    /* Seconds per element: norm, update and packing of an owned element; packing of an element
     * that another rank updated; adding an element of another rank's gradient. */
    double update, pack, sum;
};

struct wf_auto_machine {
    uint32_t ranks;          /* that were started; 0: any number, as threads of this process */
    uint32_t cores;          /* of all ranks together */
    uint32_t ranks_per_host; /* that share `bytes`; 0: all ranks */
    size_t bytes;            /* of memory; 0: no limit */
    bool copies;             /* messages are copied and need memory */
    double hop;              /* seconds per message */
    double link;             /* seconds per byte; 0: messages are passed by reference */
    const struct wf_auto_profile *profiles; /* borrowed: in ascending order of threads */
    size_t n_profiles;
};

/* One layout. */
struct wf_auto_candidate {
    uint32_t pp, dp, chunks, threads; /* chunks 0: the schedule's default */
    const char *schedule;             /* borrowed: from the settings, or a generator's name */
    double seconds;                   /* per step: pipeline + update */
    double pipeline, update;          /* all micros; reduction and optimizer */
    double bubble;
    double gap; /* of the chosen layout: maximum gain in `pipeline` by another order, proven */
    size_t rank_bytes, total_bytes; /* of the fullest rank; of all ranks */
};

struct wf_auto_candidates {
    struct wf_auto_candidate *at; /* owned: the chosen layout, then the others by time */
    size_t n;
    double fastest; /* seconds of the fastest; the chosen one may be slightly slower */
    size_t n_tried, n_over_limit; /* timed; over the memory limit */
    size_t n_pruned;     /* divisions into ranks that would take at least twice as long */
    size_t least_bytes;  /* of all ranks in the smallest layout over the limit */
    uint32_t min_micros; /* if no layout can run: the number with which one could; 0: none */
};

/* Layouts within this factor of the fastest count as equally fast: measurements vary. */
#define WF_AUTO_TOLERANCE 1.02

/* Lists all layouts that fit the ranks, the model, the micros, the memory and the given
 * settings.  The first is the one with the fewest ranks, then with the minimum memory, among
 * those about as fast as the fastest.  Returns WEFT_USAGE with the reason of the first failure,
 * and sets out->min_micros, if no layout can run; WEFT_NOMEM if none fits into memory.
 * Local. */
enum weft_status wf_auto_choose(const struct wf_train_settings *s,
                                const struct weft_model *model,
                                const struct wf_auto_machine *machine,
                                struct wf_auto_candidates *out, struct weft_error *err);
void wf_auto_candidates_release(struct wf_auto_candidates *list); /* a zeroed one is allowed */

/* -- measuring ------------------------------------------------------------------------------ */

/* A small version of the model (one layer, part of the vocabulary, few tokens) and the factors that
 * scale its times. */
struct wf_auto_probe {
    struct weft_model model;
    uint32_t rows, seq;
    struct weft_item
        scale[3]; /* embedding, layer, head: operations of the model / of the probe */
    size_t bytes; /* of one measurement, approximately */
    enum wf_dtype precision;
    bool fast_sums;
    uint32_t recompute;
};

enum weft_status wf_auto_probe_init(struct wf_auto_probe *probe,
                                    const struct wf_train_settings *s,
                                    const struct weft_model *model, struct weft_error *err);

/* Measures on every rank of comm at once, as they will run; each rank gets its own figures.
 * Collective. */
enum weft_status wf_auto_measure(struct weft_comm *comm, const struct wf_auto_probe *probe,
                                 uint32_t threads, struct wf_auto_profile *out,
                                 struct weft_error *err);

/* Measures messages from rank 0 to the last rank and back: *hop and *link as above, on rank 0; 0
 * with one rank.  Collective. */
enum weft_status wf_auto_measure_hops(struct weft_comm *comm, double *hop, double *link,
                                      struct weft_error *err);

/* Stores the numbers of threads per rank to measure, in ascending order, for at least `ranks` ranks
 * on `cores` cores, and returns how many there are.  A given number is the only one. */
enum { WF_AUTO_MAX_PROFILES = 16 };
size_t wf_auto_thread_counts(uint32_t cores, uint32_t ranks, uint32_t given,
                             uint32_t out[WF_AUTO_MAX_PROFILES]);

#endif
