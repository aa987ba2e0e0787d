/* Chooses the layout of a run: pipeline ranks, replicas, chunks, schedule and threads, from
 * times measured on this machine.
 *
 *     wf_auto_probe_init(&probe, &settings, &model, &err);
 *     wf_auto_measure(comm, &probe, threads, &profile, &err);       for each number of threads
 *     wf_auto_choose(&settings, &model, &machine, &list, &err);     the best first
 *     wf_auto_candidates_release(&list);
 *
 * The results of training do not depend on the choice, so the choice may depend on measured
 * times.  The number of micros changes the results and is never chosen by time.  (If no layout
 * can run with the default number, the program raises it.) */
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

/* Seconds per micro for one item: forward (f), input gradient (i), weight gradient (w), and
 * whole backward (b). */
struct wf_auto_times {
    double f, i, w, b;
};

/* Times of a rank that runs `threads` threads while all cores are busy, without
 * recomputation. */
struct wf_auto_profile {
    uint32_t threads;
    struct wf_auto_times embedding, layer, head;
    /* Seconds per element.  update: norm, update and packing of an element that this rank owns;
     * pack: packing of an element that another rank updated; sum: adding an element of the
     * gradient of another rank. */
    double update, pack, sum;
};

struct wf_auto_machine {
    /* number of started ranks; 0: any number, as threads of this process */
    uint32_t ranks;
    uint32_t cores;          /* number of cores of all ranks together */
    uint32_t ranks_per_host; /* number of ranks that share `bytes`; 0: all ranks */
    size_t bytes;            /* bytes of memory per host; 0: no limit */
    bool copies;             /* the transport copies messages, which needs memory */
    double hop;              /* latency: seconds per message */
    /* seconds per byte of a message; 0: messages are passed by reference */
    double link;
    const struct wf_auto_profile *profiles; /* borrowed: in ascending order of threads */
    size_t n_profiles;
};

/* One layout with its estimated time and memory. */
struct wf_auto_candidate {
    uint32_t pp, dp, chunks, threads; /* chunks 0: the schedule's default */
    /* borrowed: value from the settings, or name of a generator */
    const char *schedule;
    double seconds; /* seconds per step: pipeline + update */
    /* seconds of all micros; seconds of reduction and optimizer */
    double pipeline, update;
    double bubble;
    /* chosen layout only: proven upper bound of the gain in `pipeline` by another order of
     * actions */
    double gap;
    /* bytes of the rank that needs most memory; bytes of all ranks */
    size_t rank_bytes, total_bytes;
};

struct wf_auto_candidates {
    /* owned: the chosen layout, then the other layouts by ascending time */
    struct wf_auto_candidate *at;
    size_t n;
    /* seconds of the fastest layout; the chosen layout may be slightly slower */
    double fastest;
    /* number of layouts that were timed; that exceed the memory limit */
    size_t n_tried, n_over_limit;
    /* number of pruned divisions into ranks: they would take at least twice as long */
    size_t n_pruned;
    /* bytes of all ranks in the smallest layout that exceeds the memory limit */
    size_t least_bytes;
    /* if no layout can run: the number of micros with which a layout could; 0: none */
    uint32_t min_micros;
};

/* Layouts within this factor of the fastest layout count as equally fast, because measurements
 * vary. */
#define WF_AUTO_TOLERANCE 1.02

/* Lists all layouts that fit the ranks, the model, the micros, the memory and the given
 * settings.  Among the layouts about as fast as the fastest one, the first in the list has the
 * fewest ranks and, if several have, needs the least memory.  If no layout can run, returns
 * WEFT_USAGE with the reason of the first failure and sets out->min_micros.  Returns WEFT_NOMEM
 * if no layout fits into memory.  Local. */
enum weft_status wf_auto_choose(const struct wf_train_settings *s,
                                const struct weft_model *model,
                                const struct wf_auto_machine *machine,
                                struct wf_auto_candidates *out, struct weft_error *err);
void wf_auto_candidates_release(struct wf_auto_candidates *list); /* a zeroed list is allowed */

/* -- measuring ----------------------------------------------------------------------------- */

/* A small version of the model (one layer, part of the vocabulary, few tokens) and the factors
 * that scale its times. */
struct wf_auto_probe {
    struct weft_model model;
    uint32_t rows, seq;
    /* for embedding, layer and head: operations of the model divided by operations of the
     * probe */
    struct weft_item scale[3];
    size_t bytes; /* approximate bytes of memory for one measurement */
    enum wf_dtype precision;
    bool fast_sums;
};

enum weft_status wf_auto_probe_init(struct wf_auto_probe *probe,
                                    const struct wf_train_settings *s,
                                    const struct weft_model *model, struct weft_error *err);

/* Measures on all ranks of comm at the same time, since they will also compute at the same
 * time.  Each rank receives its own times.  Collective. */
enum weft_status wf_auto_measure(struct weft_comm *comm, const struct wf_auto_probe *probe,
                                 uint32_t threads, struct wf_auto_profile *out,
                                 struct weft_error *err);

/* Measures messages from rank 0 to the last rank and back.  Sets *hop and *link on rank 0 as in
 * struct wf_auto_machine; both are 0 if there is only one rank.  Collective. */
enum weft_status wf_auto_measure_hops(struct weft_comm *comm, double *hop, double *link,
                                      struct weft_error *err);

enum { WF_AUTO_MAX_PROFILES = 16 };

/* Stores the numbers of threads per rank to measure, in ascending order, for at least `ranks`
 * ranks on `cores` cores.  Returns how many numbers were stored.  If `given` is not 0, it is
 * the only one. */
size_t wf_auto_thread_counts(uint32_t cores, uint32_t ranks, uint32_t given,
                             uint32_t out[WF_AUTO_MAX_PROFILES]);

#endif
