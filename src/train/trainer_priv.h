#ifndef TRAIN_TRAINER_PRIV_H
#define TRAIN_TRAINER_PRIV_H

#include "data/batch.h"
#include "kern/pool.h"
#include "model/stage.h"
#include "optim/adamw.h"
#include "train/trainer.h"

struct weft_trainer {
    struct weft_model model;
    uint32_t seq, n_micros;
    enum weft_type precision;
    struct weft_curve curve;
    double clip;

    struct weft_pool *pool;     /* owned */
    struct weft_shards *shards; /* owned */
    struct weft_batch batch;
    struct weft_tstage *stage; /* owned */
    struct weft_optim *optim;  /* owned */

    struct weft_micro_order order;
    struct weft_micro_action *plain_order; /* owned; NULL when the order came from outside */
    int32_t *inputs, *targets;             /* owned: (batch.rows, seq) of the step */
    double *losses;                        /* owned: the sum of each micro's token losses */

    uint64_t done; /* steps */
};

#endif
