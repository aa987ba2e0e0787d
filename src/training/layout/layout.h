/* Who does what in a run of many ranks: schedules, stages, holders of weights, their shares.
 *
 * Rank r of the run is rank r mod pp of replica r / pp.  Replica d runs a contiguous range of the
 * step's micros by a schedule for just as many.  Every rank makes the whole layout, from the
 * settings alone, so that all know what all others do.
 *
 * A group is a run of parameters that the same ranks hold: a stage's, in all replicas and on all
 * ranks of a two-way pipeline; and a tied weight whose two uses are on different stages.  Its
 * holders sum its gradient and update a share each; shares end where blocks of WEFT_NORM_BLOCK
 * elements end. */
#ifndef TRAINING_LAYOUT_LAYOUT_H
#define TRAINING_LAYOUT_LAYOUT_H

#include "base/size.h"
#include "compute/model/params.h"
#include "training/settings/settings.h"
#include "weft/part.h"
#include "weft/schedule.h"
#include "weft/traffic.h"

/* One tensor of a group. */
struct weft_layout_tensor {
    size_t param; /* in model order */
    size_t at, n; /* elements of the group's vector */
};

struct weft_layout_group {
    bool tied;
    uint32_t stage;    /* unless it is a tied weight's */
    uint32_t *holders; /* owned: ranks of the run, ascending */
    uint32_t n_holders;
    struct weft_layout_tensor *tensors; /* owned: as they lie */
    size_t n_tensors;
    size_t first; /* where the vector begins among the stage's parameters, in elements */
    size_t *cuts; /* owned: (n_holders + 1), elements of the vector */
    size_t n;     /* elements of the vector, gaps included */
};

struct weft_layout {
    struct weft_model model;
    uint32_t seq, batch, micros;
    uint32_t pp, dp, n_ranks, n_stages;
    struct weft_schedule
        *schedules[2];               /* owned: for the most micros of a replica, the fewest */
    struct weft_traffic *traffic[2]; /* owned: the same; NULL without block residuals */
    struct weft_partition partition;
    struct weft_stage_sums sums;      /* what stages cost and hold, by the model's items */
    struct weft_param_list params;    /* of the model, in order */
    size_t *first_block;              /* owned: (params + 1), blocks of the norm */
    size_t most_rows;                 /* sequences of the largest micro */
    struct weft_layout_group *groups; /* owned */
    size_t n_groups;
};

/* weft_layout_release() frees.  Local. */
enum weft_status weft_layout_init(struct weft_layout *l, const struct weft_train_settings *s,
                                  const struct weft_model *model, struct weft_error *err);
void weft_layout_release(struct weft_layout *l); /* a zeroed one is allowed */

/* WEFT_USAGE unless as many ranks were started as it is for.  Local. */
enum weft_status weft_layout_check_ranks(const struct weft_layout *l, uint32_t started,
                                         struct weft_error *err);

/* A schedule of a file; the caller frees *out.  Local. */
enum weft_status weft_layout_read_schedule(const char *path, struct weft_schedule **out,
                                           struct weft_error *err);

/* The micros of a replica, and the schedule it runs them by. */
struct weft_range weft_layout_micros(const struct weft_layout *l, uint32_t replica);
const struct weft_schedule *weft_layout_schedule(const struct weft_layout *l, uint32_t replica);
const struct weft_traffic *weft_layout_traffic(const struct weft_layout *l, uint32_t replica);

/* The items of a stage. */
void weft_layout_items(const struct weft_layout *l, uint32_t stage, uint32_t *item0,
                       uint32_t *item1);

bool weft_layout_holds(const struct weft_layout *l, uint32_t rank, uint32_t stage);
/* Which holder of a group a rank is; n_holders when it is none. */
uint32_t weft_layout_holder(const struct weft_layout_group *g, uint32_t rank);

/* The part of a tensor that is in a holder's share: elements of the tensor. */
struct weft_range weft_layout_share(const struct weft_layout_group *g, uint32_t holder,
                                    size_t tensor);

/* What a rank will hold, by the items of the model as `weft plan` counts: the state of its stages, of
 * which holders share the moments, what its list keeps in flight, outputs and residual blocks on
 * their way, and where a transport copies also what comes in. */
enum weft_status weft_layout_rank_bytes(const struct weft_layout *l, uint32_t rank, bool copies,
                                        size_t *out, struct weft_error *err);

/* Elements that a tensor of n takes where stages keep their parameters. */
static inline size_t weft_layout_padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* The cost of stages as they run here: the head's whole backward is in its forward. */
struct weft_cost weft_layout_cost(const struct weft_layout *l);

#endif
