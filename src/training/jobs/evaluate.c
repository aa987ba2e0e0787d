/* Measures the loss of a stored model in one process, with one stage that contains the whole
 * model. */
#include "training/jobs/evaluate.h"

#include "base/clock.h"
#include "base/error.h"
#include "training/trainer/load.h"

static enum weft_status make_stage(const struct wf_weights *w,
                                   const struct wf_evaluate_options *o, uint32_t seq,
                                   struct wf_pool *pool, struct wf_tstage **out,
                                   struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(w)->model;
    /* Recomputation and fast sums save memory.  Without a backward pass they cost no time. */
    struct wf_tstage_spec spec = {
        .model = *model,
        .item1 = model->layers + 2,
        .seq = seq,
        .row_counts = {o->rows},
        .n_row_counts = 1,
        .slots = 1,
        .precision = o->precision,
        .fast_sums = true,
        .recompute = WF_RECOMPUTE_FULL,
        .pool = pool,
    };
    WEFT_TRY(wf_tstage_new(&spec, out, err));
    return wf_load_stage(w, *out, err);
}

enum weft_status wf_evaluate_model(const struct wf_weights *w,
                                   const struct wf_evaluate_options *o,
                                   struct wf_model_evaluation *out, struct weft_error *err)
{
    const struct weft_model *model = &wf_weights_info(w)->model;
    struct wf_shards *shards = NULL;
    struct wf_pool *pool = NULL;
    struct wf_tstage *stage = NULL;
    struct wf_model_evaluation e = {.seq = o->seq != 0         ? o->seq
                                           : model->ctx < 1024 ? model->ctx
                                                               : 1024};

    enum weft_status st = wf_shards_open_split(o->data, "val", &shards, err);
    if (st == WEFT_OK)
        st = wf_pool_new(o->threads, &pool, err);
    if (st == WEFT_OK)
        st = make_stage(w, o, e.seq, pool, &stage, err);
    if (st == WEFT_OK) {
        struct wf_evaluate_data data = {.shards = shards,
                                        .rows = o->rows,
                                        .seq = e.seq,
                                        .vocab = model->vocab,
                                        .batches = o->batches};
        int64_t begin = wf_clock_ns();
        st = wf_evaluate(stage, &data, &e.result, err);
        e.seconds = (double)(wf_clock_ns() - begin) * 1e-9;
        e.token_bytes = wf_evaluate_token_bytes(shards);
    }

    wf_tstage_free(stage);
    wf_pool_free(pool);
    wf_shards_free(shards);
    if (st == WEFT_OK)
        *out = e;
    return st;
}
