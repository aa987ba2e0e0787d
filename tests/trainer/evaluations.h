/* Checks that an evaluation through a pipeline sends exactly the activations of its batches and
 * no gradient, counted at the transport, and that its loss does not depend on ranks. */
#ifndef TESTS_TRAINER_EVALUATIONS_H
#define TESTS_TRAINER_EVALUATIONS_H

#include "base/error.h"
#include "runs.h"
#include "support/wire.h"
#include "weft/traffic.h"

enum { EVAL_BATCHES = 5 };

struct eval_layout {
    const char *model, *pp, *schedule, *chunks, *micros;
};

static const struct eval_layout eval_layouts[] = {
    {"gpt2-tiny", "2", "1f1b", "1", "1"},
    {"gpt2-tiny", "4", "1f1b", "1", "8"},
    {"gpt2-tiny", "2", "interleaved-1f1b", "2", "4"},
    {"llama-tiny", "2", "zb-v", "2", "4"},
    {"gpt2-tiny", "2", "gpipe", "1", "8"},
    {"llama-tiny", "4", "gpipe", "1", "1"},
    {"llama-tiny-tied-residual", "4", "1f1b", "1", "4"},
    {"llama-tiny-tied-residual", "2", "1f1b", "1", "1"},
    {"llama-tiny-tied-residual", "2", "interleaved-1f1b", "2", "4"},
    {"llama-tiny-tied-residual", "2", "zb-v", "2", "8"},
};

static inline void eval_settings(struct wf_train_settings *s, const struct eval_layout *l)
{
    run_settings(s, l->model);
    run_set(s, "data.val", run_path(l->model, "tokens.bin"));
    run_set(s, "data.batch", "8");
    run_set(s, "data.seq", "16");
    run_set(s, "eval.batches", "5");
    run_set(s, "parallel.pp", l->pp);
    run_set(s, "parallel.schedule", l->schedule);
    run_set(s, "parallel.chunks", l->chunks);
    run_set(s, "parallel.micros", l->micros);
    run_set(s, "parallel.threads", "1");
    run_set(s, "train.timeout", "30");
}

/* Returns the loss on one rank, which has one stage and sends nothing. */
static inline double eval_on_one_rank(const struct eval_layout *l)
{
    const struct eval_layout one = {l->model, "1", "1f1b", "1", l->micros};
    struct wf_train_settings s;
    struct wf_eval_result result;
    eval_settings(&s, &one);
    struct wf_trainer *t = run_trainer(&s);
    assert_int_equal(wf_trainer_evaluate(t, &result, NULL), WEFT_OK);
    wf_trainer_free(t);
    wf_settings_release(wf_train_setting_list(), &s);
    return result.loss;
}

/* Compares the bytes that this rank has sent with the links of the traffic table. */
static inline enum weft_status eval_compare(const struct wire *wire, uint32_t rank,
                                            const struct weft_traffic_step *step,
                                            uint64_t forwards, uint64_t backwards,
                                            struct weft_error *err)
{
    uint64_t forward = 0, backward = 0;
    for (size_t i = 0; i < step->n_links; i++)
        if (step->links[i].from == rank) {
            forward += forwards * step->links[i].forward_bytes;
            backward += backwards * step->links[i].backward_bytes;
        }
    const uint64_t *got = wire->bytes;
    if (got[WF_COMM_CHANNEL_FORWARD] == forward && got[WF_COMM_CHANNEL_BACKWARD] == backward &&
        got[WF_COMM_CHANNEL_OUTPUT] == 0)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_INTERNAL,
                     "rank %u sends %llu bytes forward and %llu backward, want %llu and %llu",
                     rank, (unsigned long long)got[WF_COMM_CHANNEL_FORWARD],
                     (unsigned long long)got[WF_COMM_CHANNEL_BACKWARD],
                     (unsigned long long)forward, (unsigned long long)backward);
}

static inline enum weft_status eval_check(struct weft_comm *comm, struct wf_trainer *t,
                                          const struct wf_train_settings *s, double want,
                                          struct weft_error *err)
{
    struct wire training = {{0}, NULL}, evaluation = {{0}, NULL};
    struct weft_traffic_step step;
    struct wf_step_result result;
    struct wf_eval_result e;
    uint32_t rank = weft_comm_rank(comm);
    wire_count(comm, &evaluation);
    enum weft_status st = wf_trainer_evaluate(t, &e, err);
    wire_release(comm);
    WEFT_TRY(st);
    if (e.loss != want)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: loss %.17g, want %.17g", rank, e.loss,
                         want);
    wire_count(comm, &training); /* shows that gradients are counted */
    st = wf_trainer_step(t, &result, err);
    wire_release(comm);
    WEFT_TRY(st);
    WEFT_TRY(wf_topology_count_traffic(wf_trainer_info(t).topology,
                                       (enum weft_block_cache)s->parallel.cache, &step, err));
    st = eval_compare(&evaluation, rank, &step, EVAL_BATCHES, 0, err);
    if (st == WEFT_OK)
        st = eval_compare(&training, rank, &step, 1, 1, err);
    weft_traffic_step_release(&step);
    return st;
}

#endif
