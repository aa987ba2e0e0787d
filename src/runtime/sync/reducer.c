/* The public functions of weft/sync.h.  They detect misuse and start the reduction. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/comm/transport.h"
#include "runtime/sync/reducer_priv.h"

/* Records the first misuse.  The call changed nothing.  If this rank ends because of the
 * misuse, the other ranks receive this error. */
static enum weft_status record_misuse(struct weft_sync *s, enum weft_status st,
                                      const struct weft_error *err)
{
    if (s->misuse.status == WEFT_OK)
        s->misuse = *err;
    return st;
}

#define MISUSE(s, err, ...) record_misuse(s, WEFT_FAIL(err, WEFT_USAGE, __VA_ARGS__), err)

/* Ends all ranks with an error that is not a misuse. */
static enum weft_status check_fatal(struct weft_sync *s, enum weft_status st,
                                    struct weft_error *err)
{
    if (st != WEFT_OK && s->broken.status == WEFT_OK) {
        err->status = st;
        s->broken = *err;
        weft_comm_abort(s->comm, err);
    }
    return st;
}

/* Returns WEFT_USAGE if there is no reducer, and the fatal error if there was one.  Every
 * public function with a status calls this function first. */
static enum weft_status check_intact(const struct weft_sync *s, struct weft_error *err)
{
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "gradient sync: the reducer is NULL; create it first");
    if (s->broken.status != WEFT_OK)
        *err = s->broken;
    return s->broken.status;
}

static enum weft_status make_progress(struct weft_sync *s, uint64_t step,
                                      struct weft_error *err)
{
    weft_comm_publish(s->comm, step, s->comm->activity.doing);
    return check_fatal(s, weft_comm_progress(s->comm, err), err);
}

static enum weft_status flush_progress(struct weft_sync *s, uint64_t step,
                                       struct weft_error *err)
{
    s->waits = true;
    enum weft_status st = make_progress(s, step, err);
    s->waits = false;
    return st;
}

/* -- new ----------------------------------------------------------------------------------- */

static enum weft_status begin(struct weft_sync *s, struct weft_error *err)
{
    s->peers = calloc(s->n_ranks, sizeof *s->peers);
    s->lost = wf_sync_pool_alloc(&s->pool, SYNC_TILE * sizeof *s->lost);
    s->lost_rest = wf_sync_pool_alloc(&s->pool, SYNC_TILE * sizeof *s->lost_rest);
    if (s->peers == NULL || s->lost == NULL || s->lost_rest == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for gradient sync between %u ranks",
                         s->n_ranks);
    for (uint32_t r = 0; r < s->n_ranks; r++)
        if (r != s->rank)
            WEFT_TRY(check_fatal(s, wf_sync_link_open(s, r, err), err));
    return WEFT_OK;
}

static void release(struct weft_sync *s)
{
    wf_sync_pool_release(&s->pool);
    free(s->peers);
    free(s);
}

enum weft_status weft_sync_new(struct weft_comm *comm, enum weft_sync_op op,
                               struct weft_sync **out, struct weft_error *err)
{
    struct weft_error own;
    err = err != NULL ? err : &own;
    if (comm == NULL || out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "gradient sync: the %s of weft_sync_new() is NULL",
                         comm == NULL ? "communicator" : "result");
    if (op != WEFT_SYNC_SUM && op != WEFT_SYNC_MEAN)
        return WEFT_FAIL(err, WEFT_USAGE, "gradient sync: unknown operation %d", (int)op);
    if (comm->progress != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "rank %u: the progress function is in use; free the other weft_sync "
                         "first",
                         comm->rank);

    struct weft_sync *s = calloc(1, sizeof *s);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for gradient sync");
    s->comm = comm;
    s->ops = wf_sum_ops();
    s->op = op;
    s->rank = weft_comm_rank(comm);
    s->n_ranks = weft_comm_size(comm);
    s->words = (s->n_ranks + 63) / 64;

    enum weft_status st = begin(s, err);
    if (st != WEFT_OK) {
        release(s);
        return st;
    }

    weft_comm_on_progress(comm, wf_sync_progress, s);
    *out = s;
    return WEFT_OK;
}

void weft_sync_on_complete(struct weft_sync *s, weft_sync_param_fn *on_param,
                           weft_sync_step_fn *on_step, void *arg)
{
    if (s == NULL)
        return;
    s->on_param = on_param;
    s->on_step = on_step;
    s->callback_arg = arg;
}

/* -- register ------------------------------------------------------------------------------ */

static enum weft_status send_set(struct weft_sync *s, uint32_t peer,
                                 const struct sync_step *step, struct weft_error *err)
{
    const size_t max = SYNC_BUCKET_BYTES / sizeof(struct sync_entry) / 2;
    size_t done = 0;
    do {
        size_t n = wf_size_min(step->n - done, max);
        struct sync_record record = {.kind = SYNC_KIND_SET,
                                     .id = (uint32_t)s->op,
                                     .step = step->number,
                                     .piece = done + n < step->n,
                                     .n = (uint32_t)n};
        void *room;
        WEFT_TRY(wf_sync_link_put(s, peer, record, n * sizeof(struct sync_entry), &room, err));

        struct sync_entry *at = room;
        for (size_t i = 0; i < n; i++)
            at[i] = (struct sync_entry){.id = step->params[done + i].id,
                                        .n_grads = step->params[done + i].n_grads,
                                        .size = step->params[done + i].size,
                                        .type = (uint32_t)step->params[done + i].type};

        done += n;
    } while (done < step->n);
    return WEFT_OK;
}

/* Processes the sets of a peer that arrived before this rank registered the step.  Sets of
 * earlier steps belong to steps that this rank skipped. */
static enum weft_status match_stored(struct weft_sync *s, uint32_t peer, struct sync_step *step,
                                     struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    while (p->stored != NULL && p->stored->step <= step->number) {
        struct sync_stored *set = p->stored;
        if (set->step == step->number)
            WEFT_TRY(wf_sync_step_match(s, step, peer, set->at, set->n, err));
        p->stored = set->next;
        if (p->stored == NULL)
            p->stored_end = &p->stored;
        wf_sync_pool_free(&s->pool, set);
    }
    return WEFT_OK;
}

/* Sends the set of a step to a peer.  `before` is the previous step of this rank.  A peer that
 * has left needs only this rank's first step after the peer's last step: it shows the peer
 * which steps this rank skips. */
static enum weft_status announce(struct weft_sync *s, struct sync_step *step, uint64_t before,
                                 struct weft_error *err)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        struct sync_peer *p = &s->peers[r];
        if (r == s->rank)
            continue;
        WEFT_TRY(match_stored(s, r, step, err));
        step->unknown += !p->left && p->next_step <= step->number;
        if (!p->left || before < p->next_step)
            WEFT_TRY(send_set(s, r, step, err));
    }
    return step->unknown == 0 ? wf_sync_step_open(s, step, err) : WEFT_OK;
}

static void append_step(struct weft_sync *s, struct sync_step *step)
{
    struct sync_step **end = &s->steps;
    while (*end != NULL)
        end = &(*end)->next;
    *end = step;
    s->next_step = step->number + 1;
    s->n_unfinished += step->n != 0;
    s->n_reports += step->n == 0; /* a step without parameters is complete */
}

static enum weft_status check_register(struct weft_sync *s, uint64_t step,
                                       struct weft_error *err)
{
    if (s->left)
        return MISUSE(s, err, "rank %u registers step %" PRIu64 " after it has left", s->rank,
                      step);
    if (step == UINT64_MAX)
        return MISUSE(s, err, "rank %u: %" PRIu64 " is not a valid step number", s->rank, step);
    if (step < s->next_step && wf_sync_step_find(s, step) != NULL)
        return MISUSE(s, err, "rank %u registers step %" PRIu64 " twice", s->rank, step);
    if (step < s->next_step)
        return MISUSE(s, err,
                      "rank %u registers step %" PRIu64 " after step %" PRIu64
                      ": steps must ascend",
                      s->rank, step, s->next_step - 1);
    return WEFT_OK;
}

enum weft_status weft_sync_register_params(struct weft_sync *s, uint64_t step,
                                           const struct weft_sync_param *params, size_t n,
                                           struct weft_error *err)
{
    struct weft_error own;
    struct sync_step *made = NULL;
    err = err != NULL ? err : &own;
    WEFT_TRY(check_intact(s, err));
    WEFT_TRY(check_register(s, step, err));
    if (params == NULL && n != 0)
        return MISUSE(s, err, "rank %u, step %" PRIu64 ": registers NULL as %zu parameters",
                      s->rank, step, n);
    enum weft_status st = wf_sync_step_new(s, step, params, n, &made, err);
    if (st == WEFT_USAGE)
        return record_misuse(s, st, err);
    WEFT_TRY(check_fatal(s, st, err));
    uint64_t before = s->next_step;
    append_step(s, made);
    WEFT_TRY(check_fatal(s, announce(s, made, before, err), err));
    return make_progress(s, step, err);
}

enum weft_status weft_sync_register(struct weft_sync *s, uint64_t step, const uint32_t *ids,
                                    const size_t *sizes, size_t n, struct weft_error *err)
{
    struct weft_error own;
    struct weft_sync_param *params = NULL;
    size_t bytes;
    err = err != NULL ? err : &own;

    WEFT_TRY(check_intact(s, err));
    if (n != 0 && (ids == NULL || sizes == NULL))
        return MISUSE(s, err, "rank %u, step %" PRIu64 ": registers NULL as %zu parameters",
                      s->rank, step, n);

    if (n != 0 && wf_size_mul(n, sizeof *params, &bytes))
        params = wf_sync_pool_alloc(&s->pool, bytes);
    if (n != 0 && params == NULL)
        return check_fatal(s,
                           WEFT_FAIL(err, WEFT_NOMEM,
                                     "rank %u: no memory for a step of %zu parameters", s->rank,
                                     n),
                           err);

    for (size_t i = 0; i < n; i++)
        params[i] = (struct weft_sync_param){.id = ids[i], .size = sizes[i]};
    enum weft_status st = weft_sync_register_params(s, step, params, n, err);
    wf_sync_pool_free(&s->pool, params);
    return st;
}

/* -- push ---------------------------------------------------------------------------------- */

static enum weft_status find_step(struct weft_sync *s, uint64_t number, const char *doing,
                                  struct sync_step **out, struct weft_error *err)
{
    *out = wf_sync_step_find(s, number);
    if (*out != NULL)
        return WEFT_OK;
    if (number >= s->next_step)
        return MISUSE(s, err, "rank %u %s step %" PRIu64 ", which it has not registered",
                      s->rank, doing, number);
    return MISUSE(s, err,
                  "rank %u %s step %" PRIu64
                  ", which it has waited for already, or has not registered",
                  s->rank, doing, number);
}

enum weft_status weft_sync_push(struct weft_sync *s, uint64_t step, uint32_t id, void *grad,
                                struct weft_error *err)
{
    struct weft_error own;
    struct sync_step *k;
    err = err != NULL ? err : &own;

    WEFT_TRY(check_intact(s, err));
    WEFT_TRY(find_step(s, step, "pushes a gradient of", &k, err));

    struct sync_param *p = wf_sync_param_find(s, k, id);
    if (p == NULL)
        return MISUSE(s, err,
                      "rank %u, step %" PRIu64 ": pushes parameter %u, which is not registered",
                      s->rank, step, id);
    if (p->n_pushed == p->n_grads && p->n_grads == 1)
        return MISUSE(s, err, "rank %u, step %" PRIu64 ": pushes parameter %u twice", s->rank,
                      step, id);
    if (p->n_pushed == p->n_grads)
        return MISUSE(s, err,
                      "rank %u, step %" PRIu64
                      ": pushes parameter %u more often than the %u times it registered",
                      s->rank, step, id, p->n_grads);
    if (grad == NULL && p->size != 0)
        return MISUSE(s, err, "rank %u, step %" PRIu64 ": pushes NULL for parameter %u",
                      s->rank, step, id);

    p->grads[p->n_pushed++] = grad;
    k->unpushed -= p->n_pushed == p->n_grads;

    if (k->open)
        WEFT_TRY(check_fatal(s, wf_sync_contribute(s, k, p, p->n_pushed - 1, err), err));
    if (k->unpushed == 0) /* send now: other ranks wait for the packed records */
        for (uint32_t r = 0; r < s->n_ranks; r++)
            s->peers[r].urgent = true;
    return make_progress(s, step, err);
}

/* -- wait ---------------------------------------------------------------------------------- */

static bool owes(const struct weft_sync *s, const struct sync_step *step, uint32_t peer)
{
    if (peer == s->rank)
        return false;
    if (!step->open)
        return !s->peers[peer].left && s->peers[peer].next_step <= step->number;
    return step->due_parts[peer] > 0 || step->due_results[peer] > 0;
}

/* Returns the peer to wait for.  Peers with missing PARTs come first: a peer with a missing
 * RESULT may itself wait for PARTs. */
static uint32_t next_missing_peer(const struct weft_sync *s, const struct sync_step *step)
{
    for (uint32_t r = 0; step->open && r < s->n_ranks; r++)
        if (r != s->rank && step->due_parts[r] > 0)
            return r;
    for (uint32_t r = 0; r < s->n_ranks; r++)
        if (owes(s, step, r))
            return r;
    return s->rank;
}

struct reducer_wait {
    const struct weft_sync *s;
    const struct sync_step *step;
    uint32_t peer;
};

static enum weft_status peer_contributed(void *arg, bool *yes, struct weft_error *err)
{
    const struct reducer_wait *w = arg;
    (void)err;
    *yes = w->step->left == 0 || !owes(w->s, w->step, w->peer);
    return WEFT_OK;
}

static enum weft_status peer_is_closed(void *arg, bool *yes, struct weft_error *err)
{
    const struct reducer_wait *w = arg;
    (void)err;
    *yes = wf_sync_link_is_closed(w->s, w->peer);
    return WEFT_OK;
}

static enum weft_status until(struct weft_sync *s, struct reducer_wait *w, weft_ready_fn *ready,
                              struct weft_error *err)
{
    s->waits = true;
    enum weft_status st = weft_comm_wait_until(s->comm, w->peer, ready, w, err);
    s->waits = false;
    return check_fatal(s, st, err);
}

/* Prints the ids of parameters that are not pushed, such as "3, 8, 9, 12 and 5 more". */
static void list_missing(const struct sync_step *step, char *out, size_t room)
{
    const size_t max = 4;
    size_t named = 0, used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < step->n && named < max; i++)
        if (step->params[i].n_pushed != step->params[i].n_grads) {
            used += (size_t)snprintf(out + used, room - used, "%s%" PRIu32,
                                     named == 0 ? "" : ", ", step->params[i].id);
            named++;
        }
    if (step->unpushed > named)
        snprintf(out + used, room - used, " and %zu more", step->unpushed - named);
}

enum weft_status weft_sync_wait(struct weft_sync *s, uint64_t step, struct weft_error *err)
{
    struct weft_error own;
    struct sync_step *k;
    char missing[96];
    err = err != NULL ? err : &own;

    WEFT_TRY(check_intact(s, err));
    WEFT_TRY(find_step(s, step, "waits for", &k, err));
    if (k->unpushed != 0) {
        list_missing(k, missing, sizeof missing);
        return MISUSE(s, err,
                      "rank %u waits for step %" PRIu64
                      " but has not pushed what it registered: parameter %s",
                      s->rank, step, missing);
    }

    if (s->in_callback && (!k->reported || k->waited))
        return MISUSE(s, err,
                      "rank %u waits for step %" PRIu64
                      " in a callback, but the step %s; wait for it outside of callbacks",
                      s->rank, step, k->reported ? "is waited for already" : "is not complete");

    k->waited = true; /* a callback must not end the step during this wait */
    WEFT_TRY(flush_progress(s, step, err));
    while (k->left != 0) {
        struct reducer_wait w = {s, k, next_missing_peer(s, k)};
        /* Only a bug in this file leads here; without this check the rank would hang. */
        if (w.peer == s->rank)
            return check_fatal(s,
                               WEFT_FAIL(err, WEFT_INTERNAL,
                                         "rank %u, step %" PRIu64 ": waits for no rank",
                                         s->rank, step),
                               err);
        WEFT_TRY(until(s, &w, peer_contributed, err));
    }

    wf_sync_step_end(s, k);
    return WEFT_OK;
}

enum weft_status weft_sync_test(struct weft_sync *s, uint64_t step, bool *done,
                                struct weft_error *err)
{
    struct weft_error own;
    struct sync_step *k;
    err = err != NULL ? err : &own;
    WEFT_TRY(check_intact(s, err));
    if (done == NULL)
        return MISUSE(s, err, "rank %u tests step %" PRIu64 ", but the result is NULL", s->rank,
                      step);
    WEFT_TRY(find_step(s, step, "tests", &k, err));
    WEFT_TRY(flush_progress(s, step, err));
    k = wf_sync_step_find(s, step); /* a callback may have ended the step */
    *done = k == NULL || k->left == 0;
    return WEFT_OK;
}

/* -- leave and free ------------------------------------------------------------------------ */

enum weft_status weft_sync_leave(struct weft_sync *s, struct weft_error *err)
{
    struct weft_error own;
    err = err != NULL ? err : &own;
    WEFT_TRY(check_intact(s, err));
    if (s->left)
        return MISUSE(s, err, "rank %u leaves twice", s->rank);
    s->left = true;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        struct sync_record leave = {.kind = SYNC_KIND_LEAVE};
        if (r != s->rank && !s->peers[r].bye_out)
            WEFT_TRY(check_fatal(s, wf_sync_link_put(s, r, leave, 0, NULL, err), err));
    }
    return make_progress(s, s->comm->activity.step, err);
}

/* Aborts the other ranks if this rank ends before it has pushed all registered gradients.
 * Otherwise the other ranks would wait for these gradients. */
static enum weft_status check_unpushed(struct weft_sync *s, struct weft_error *err)
{
    const struct sync_step *k = s->steps;
    char missing[96];
    while (k != NULL && k->unpushed == 0)
        k = k->next;
    if (k == NULL)
        return WEFT_OK;
    list_missing(k, missing, sizeof missing);
    enum weft_status st = WEFT_FAIL(err, WEFT_USAGE,
                                    "rank %u ended its gradient sync without pushing what it "
                                    "registered for step %" PRIu64 ": parameter %s",
                                    s->rank, k->number, missing);
    if (s->misuse.status != WEFT_OK)
        *err = s->misuse;
    return check_fatal(s, st, err);
}

/* Waits until no peer sends to this rank any more and all messages of this rank were read. */
static enum weft_status finish(struct weft_sync *s, struct weft_error *err)
{
    WEFT_TRY(check_intact(s, err));
    WEFT_TRY(check_unpushed(s, err));
    if (!s->left)
        WEFT_TRY(weft_sync_leave(s, err));
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        struct reducer_wait w = {.s = s, .peer = r};
        if (r != s->rank)
            WEFT_TRY(until(s, &w, peer_is_closed, err));
    }
    return WEFT_OK;
}

void weft_sync_free(struct weft_sync *s)
{
    struct weft_error err;
    if (s == NULL)
        return;
    (void)finish(s, &err);
    weft_comm_on_progress(s->comm, NULL, NULL);
    release(s);
}

struct weft_sync_counts weft_sync_counts(const struct weft_sync *s)
{
    if (s == NULL)
        return (struct weft_sync_counts){0};
    struct weft_sync_counts counts = s->counts;
    counts.memory = s->pool.bytes;
    return counts;
}
