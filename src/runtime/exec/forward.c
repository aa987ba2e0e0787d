/* The memory of forward-only steps: waits until messages have arrived before their memory is
 * written again.  program_forward.c numbers the memory.
 *
 * A receiver copies each message to memory of its own on every transport, so that a sender waits
 * for a receive and never for a computation of its peer.  No message is sent back.  The last
 * messages of a step may arrive during the next step. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "runtime/exec/exec_priv.h"

enum weft_status wf_exec_forward_new(struct weft_exec *e, struct weft_error *err)
{
    uint32_t n_micros = e->place->n_micros, n_sets = e->program->n_sets;
    e->set_user = calloc((size_t)n_sets + 1, sizeof *e->set_user);
    e->has_set = calloc(n_micros, sizeof *e->has_set);
    e->micro_end = calloc(n_micros, sizeof *e->micro_end);
    e->micro_done = calloc(n_micros, sizeof *e->micro_done);
    if (e->set_user == NULL || e->has_set == NULL || e->micro_end == NULL ||
        e->micro_done == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the forwards of rank %u", e->rank);
    for (uint32_t i = 0; i < n_sets; i++)
        e->set_user[i] = WF_NO_MICRO;
    for (size_t i = 0; i < e->list.len; i++)
        if (weft_act_has_micro(e->list.at[i].kind))
            e->micro_end[e->list.at[i].micro] = i;
    return WEFT_OK;
}

void wf_exec_forward_free(struct weft_exec *e)
{
    free(e->set_user);
    free(e->has_set);
    free(e->micro_end);
    free(e->micro_done);
}

void wf_exec_forward_begin(struct weft_exec *e)
{
    memset(e->has_set, 0, e->place->n_micros * sizeof *e->has_set);
    memset(e->micro_done, 0, e->place->n_micros * sizeof *e->micro_done);
}

/* -- messages in transit -------------------------------------------------------------------- */

/* A cell whose messages may be in transit. */
struct transit {
    struct weft_exec *e;
    uint32_t stage, micro;
};

/* Sets *yes once the messages of a cell have arrived. */
static enum weft_status has_arrived(const struct transit *x, bool *yes, struct weft_error *err)
{
    struct cell *c = wf_exec_cell(x->e, x->stage, x->micro);
    struct weft_action a = {.kind = WEFT_ACT_SEND_F, .stage = x->stage, .micro = x->micro};
    *yes = true;
    if (!c->sending)
        return WEFT_OK;
    WEFT_TRY(weft_comm_test(x->e->comm, &c->send_f, err));
    *yes = c->send_f.done;
    if (*yes && x->e->n_blocks > 0)
        WEFT_TRY(wf_exec_blocks_sent(x->e, a, yes, err));
    c->sending = !*yes;
    return WEFT_OK;
}

/* Meanwhile posts other receives, for which other ranks may wait. */
static enum weft_status wait_or_post(void *arg, bool *yes, struct weft_error *err)
{
    const struct transit *x = arg;
    if (!x->e->by_reference && x->e->io != NULL)
        WEFT_TRY(wf_exec_post_ahead(x->e, err));
    return has_arrived(x, yes, err);
}

static enum weft_status wait_for_arrival(struct weft_exec *e, uint32_t stage, uint32_t micro,
                                         struct weft_error *err)
{
    struct transit x = {e, stage, micro};
    if (!wf_exec_cell(e, stage, micro)->sending)
        return WEFT_OK;
    uint32_t peer = e->ranks[weft_placement_rank(e->place, stage + 1, micro)];
    return weft_comm_wait_until(e->comm, peer, wait_or_post, &x, err);
}

bool wf_exec_forward_drain(struct weft_exec *e)
{
    e->io = NULL; /* no step is in progress: nothing is posted */
    for (uint32_t h = 0; h < e->program->n_local; h++)
        for (uint32_t m = 0; m < e->place->n_micros; m++)
            if (wait_for_arrival(e, e->program->local[h].stage, m, NULL) != WEFT_OK)
                return false; /* after an abort no rank accesses another rank's memory */
    return true;
}

/* -- outputs and sets ----------------------------------------------------------------------- */

/* Waits for the output buffer of a cell. */
static enum weft_status take_output(struct weft_exec *e, struct weft_action a,
                                    struct weft_error *err)
{
    struct stage_buffers *h = &e->local[e->program->local_of[a.stage]];
    if ((uint32_t)a.stage + 1 == e->place->n_stages)
        return WEFT_OK;
    uint32_t *user =
        &h->out_user[e->program->cells[wf_program_cell(e->program, a.stage, a.micro)].out];
    if (*user != WF_NO_MICRO)
        WEFT_TRY(wait_for_arrival(e, a.stage, *user, err));
    *user = a.micro;
    return WEFT_OK;
}

enum weft_status wf_exec_forward_take_set(struct weft_exec *e, uint32_t micro, bool *ready,
                                          struct weft_error *err)
{
    uint32_t before = e->program->set_before[micro];
    uint32_t *user = &e->set_user[e->program->set_of[micro]];
    *ready = e->has_set[micro] || before == WF_NO_MICRO || e->micro_done[before];
    if (e->has_set[micro] || !*ready)
        return WEFT_OK;
    for (uint32_t h = 0; *ready && *user != WF_NO_MICRO && h < e->program->n_local; h++) {
        const struct transit x = {e, e->program->local[h].stage, *user};
        WEFT_TRY(has_arrived(&x, ready, err));
    }
    if (*ready) {
        *user = micro;
        e->has_set[micro] = true;
    }
    return WEFT_OK;
}

/* Waits for the set of a micro-batch.  Its previous user in the list has run. */
static enum weft_status wait_for_set(struct weft_exec *e, uint32_t micro,
                                     struct weft_error *err)
{
    uint32_t user = e->set_user[e->program->set_of[micro]];
    bool ready;
    for (uint32_t h = 0; !e->has_set[micro] && user != WF_NO_MICRO && h < e->program->n_local;
         h++)
        WEFT_TRY(wait_for_arrival(e, e->program->local[h].stage, user, err));
    return wf_exec_forward_take_set(e, micro, &ready, err);
}

enum weft_status wf_exec_forward_prepare(struct weft_exec *e, struct weft_action a,
                                         struct weft_error *err)
{
    if (a.kind != WEFT_ACT_F && a.kind != WEFT_ACT_RECV_F)
        return WEFT_OK;
    if (e->n_blocks > 0)
        WEFT_TRY(wait_for_set(e, a.micro, err));
    return a.kind == WEFT_ACT_F ? take_output(e, a, err) : WEFT_OK;
}

/* -- inputs --------------------------------------------------------------------------------- */

void wf_exec_forward_keep_input(struct weft_exec *e, struct weft_action a,
                                struct weft_message *m)
{
    struct stage_buffers *h = &e->local[e->program->local_of[a.stage]];
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    c->in_set = h->free_in[--h->n_free_in];
    c->in = h->in + c->in_set * h->in_stride;
    if (m->bytes > 0)
        memcpy(c->in, m->data, m->bytes);
    weft_comm_release(e->comm, m);
}

void wf_exec_forward_end(struct weft_exec *e, struct weft_action a, size_t position)
{
    if (!weft_act_has_micro(a.kind))
        return;
    if (a.kind == WEFT_ACT_F && a.stage > 0 &&
        weft_placement_rank(e->place, a.stage - 1, a.micro) != e->rank) {
        struct stage_buffers *h = &e->local[e->program->local_of[a.stage]];
        h->free_in[h->n_free_in++] = wf_exec_cell(e, a.stage, a.micro)->in_set;
    }
    e->micro_done[a.micro] = position == e->micro_end[a.micro];
}
