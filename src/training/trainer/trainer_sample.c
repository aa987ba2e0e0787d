/* Generates text during training: rank 0 gathers the weights and samples; the other ranks
 * wait. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "compute/model/infer.h"
#include "training/trainer/trainer_priv.h"

struct sample {
    struct wf_trainer *t;
    const struct wf_sample_spec *spec;
    struct wf_infer *model;    /* owned */
    float *logits;             /* owned: (vocab) */
    struct wf_candidate *work; /* owned: (vocab) */
    size_t next_param;
};

/* Publishes a heartbeat.  Called for every token and every weight, since all of them together
 * may take longer than the timeout. */
static void post_heartbeat(struct wf_trainer *t)
{
    if (t->comm != NULL)
        weft_comm_publish(t->comm, t->done, WF_PHASE_SAMPLE);
}

static uint32_t context_length(const struct weft_model *model,
                               const struct wf_sample_spec *spec)
{
    uint64_t n = (uint64_t)spec->n_prompt + spec->n_tokens;
    return n < model->ctx ? (uint32_t)n : model->ctx;
}

static enum weft_status init(struct sample *s, struct weft_error *err)
{
    const struct weft_model *model = &s->t->topology.model;
    struct wf_infer_spec spec = {
        .model = *model,
        .max_tokens = context_length(model, s->spec),
        .type = WF_DTYPE_F32,
        .pool = s->t->pool,
    };
    s->logits = malloc(model->vocab * sizeof *s->logits);
    s->work = malloc(model->vocab * sizeof *s->work);
    if (s->logits == NULL || s->work == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the logits of a sample");
    return wf_infer_new(&spec, &s->model, err);
}

static void release(struct sample *s)
{
    wf_infer_free(s->model);
    free(s->logits);
    free(s->work);
}

/* Fetches the next parameter.  The model requests its parameters in the order of the list in
 * the topology. */
static enum weft_status fetch(void *arg, const struct wf_param_desc *d, float *out,
                              struct weft_error *err)
{
    struct sample *s = arg;
    (void)d;
    post_heartbeat(s->t);
    return wf_trainer_fetch_weight(s->t, s->next_param++, out, err);
}

static enum weft_status generate(struct sample *s, int32_t *out, size_t *n,
                                 struct weft_error *err)
{
    const struct wf_sample_spec *spec = s->spec;
    const struct weft_model *model = &s->t->topology.model;
    size_t max = context_length(model, spec) - spec->n_prompt;
    for (size_t i = 0; i < spec->n_prompt; i++) {
        post_heartbeat(s->t);
        bool last = i + 1 == spec->n_prompt;
        WEFT_TRY(wf_infer_feed(s->model, &spec->prompt[i], 1, last ? s->logits : NULL, err));
    }
    for (*n = 0; *n < max;) {
        post_heartbeat(s->t);
        int32_t token =
            wf_sample(s->logits, model->vocab, &spec->how, spec->n_prompt + *n, s->work);
        if (token == spec->end)
            break;
        out[(*n)++] = token;
        if (*n < max)
            WEFT_TRY(wf_infer_feed(s->model, &token, 1, s->logits, err));
    }
    return WEFT_OK;
}

static enum weft_status check(const struct wf_trainer *t, const struct wf_sample_spec *spec,
                              struct weft_error *err)
{
    if (spec->n_prompt == 0 || spec->n_prompt >= t->topology.model.ctx)
        return WEFT_FAIL(err, WEFT_USAGE, "the prompt has %zu tokens; expected 1 to %u",
                         spec->n_prompt, t->topology.model.ctx - 1);
    return WEFT_OK;
}

/* Generates the text on rank 0.  Errors before and after the exchange of weights affect only
 * the text and are stored in out->failure. */
static enum weft_status sample_root(struct wf_trainer *t, const struct wf_sample_spec *spec,
                                    struct wf_sample_result *out, struct weft_error *err)
{
    struct sample s = {.t = t, .spec = spec};
    enum weft_status st = check(t, spec, &out->failure);
    if (st == WEFT_OK)
        st = init(&s, &out->failure);
    uint32_t ready = st == WEFT_OK;
    st = t->comm == NULL ? WEFT_OK : weft_comm_broadcast(t->comm, &ready, sizeof ready, err);
    if (st == WEFT_OK && ready)
        st = wf_infer_load(s.model, fetch, &s, err);
    if (st == WEFT_OK && ready)
        (void)generate(&s, out->tokens, &out->n, &out->failure);
    release(&s);
    return st;
}

static enum weft_status sample_other(struct wf_trainer *t, struct weft_error *err)
{
    uint32_t ready = 0;
    WEFT_TRY(weft_comm_broadcast(t->comm, &ready, sizeof ready, err));
    return ready ? wf_trainer_send_weights(t, err) : WEFT_OK;
}

enum weft_status wf_trainer_sample(struct wf_trainer *t, const struct wf_sample_spec *spec,
                                   struct wf_sample_result *out, struct weft_error *err)
{
    out->n = 0;
    out->failure = (struct weft_error){0};
    post_heartbeat(t);
    WEFT_TRY(t->rank == 0 ? sample_root(t, spec, out, err) : sample_other(t, err));
    /* Without this barrier, the times of the next step would include the wait for rank 0. */
    return t->comm == NULL ? WEFT_OK : weft_comm_barrier(t->comm, err);
}
