#include "training/trainer/checkpoint.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pages.h"
#include "base/text.h"
#include "planning/spec/hf_config.h"
#include "runtime/comm/background.h"
#include "training/ckpt/file.h"
#include "training/ckpt/store.h"
#include "training/trainer/messages.h"
#include "training/trainer/trainer_priv.h"

enum { NAME = 24, WHY = 300 };

struct wf_checkpointer {
    char *root; /* owned */
    char run[NAME];
    char *config, *model; /* owned: texts for the manifest, on rank 0 */
    uint32_t every, rank, n_ranks;
    size_t keep;
    bool background;

    /* This rank's file. */
    float *snapshot; /* owned; NULL when it is written from the live numbers */
    struct wf_store_writer *writer;
    char *blob; /* owned */
    size_t blob_bytes;
    struct weft_error error;
    uint64_t step;
    int64_t begin_ns;
    pthread_t thread;
    bool has_thread;
    atomic_int state; /* enum wf_checkpoint_state */

    /* Rank 0. */
    bool due;
    char **blobs; /* owned, and each */
    size_t *blob_sizes;
    pthread_t committer;
    bool has_committer;
    atomic_bool committing;
    uint64_t
        committed; /* the step of the last one that is there; the committer's until joined */
    struct weft_error commit_error;
    struct wf_checkpoint_result result;
};

/* -- making it ------------------------------------------------------------------------------ */

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for checkpoints");
}

/* Elements of this rank's shares: value, and two moments. */
static size_t snapshot_elements(const struct wf_trainer *t)
{
    size_t n, sum = 0;
    const struct wf_optim_tensor *at = wf_optim_tensors(t->optim, &n);
    for (size_t i = 0; i < n; i++)
        sum += 3 * (at[i].end - at[i].begin);
    return sum;
}

static enum weft_status make_texts(struct wf_checkpointer *c, const struct wf_trainer *t,
                                   const struct wf_train_settings *s, struct weft_error *err)
{
    struct wf_text config = {0}, model = {0};
    wf_settings_print(wf_train_setting_list(), s, &config);
    const struct wf_hf_metadata about = {"float32", -1, -1};
    enum weft_status st = wf_hf_config_write(&t->topology.model, &about, &model, err);
    c->config = config.failed || config.at == NULL ? NULL : strdup(config.at);
    c->model = st != WEFT_OK || model.failed || model.at == NULL ? NULL : strdup(model.at);
    wf_text_release(&config);
    wf_text_release(&model);
    if (st != WEFT_OK)
        return st;
    return c->config == NULL || c->model == NULL ? no_memory(err) : WEFT_OK;
}

static enum weft_status prepare(void *checkpointer, struct weft_error *err)
{
    struct wf_checkpointer *c = checkpointer;
    return wf_store_prepare(c->root, NULL, err);
}

static enum weft_status fill(struct wf_checkpointer *c, struct wf_trainer *t,
                             const struct wf_train_settings *s, struct weft_error *err)
{
    uint64_t run = (uint64_t)wf_clock_ns();
    c->root = wf_path_join(s->log.dir, "checkpoints");
    c->rank = t->rank;
    c->n_ranks = t->n_ranks;
    c->every = s->checkpoint.every;
    c->keep = s->checkpoint.keep;
    c->background = s->checkpoint.in_background;
    if (c->root == NULL)
        return no_memory(err);
    if (t->rank == 0) {
        c->blobs = calloc(t->n_ranks, sizeof *c->blobs);
        c->blob_sizes = calloc(t->n_ranks, sizeof *c->blob_sizes);
        if (c->blobs == NULL || c->blob_sizes == NULL)
            return no_memory(err);
        WEFT_TRY(make_texts(c, t, s, err));
        WEFT_TRY(wf_background_run(t->comm, prepare, c, err));
    }
    if (t->comm != NULL)
        WEFT_TRY(weft_comm_broadcast(t->comm, &run, sizeof run, err));
    snprintf(c->run, sizeof c->run, "%016" PRIx64, run);
    if (!c->background)
        return WEFT_OK;
    size_t bytes = snapshot_elements(t) * sizeof(float);
    c->snapshot = wf_pages_alloc(bytes + 1);
    if (c->snapshot == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "no memory for a snapshot of %zu bytes: checkpoint.async=false needs "
                         "none",
                         bytes);
    memset(c->snapshot, 0, bytes);
    return WEFT_OK;
}

enum weft_status wf_checkpointer_new(struct wf_trainer *t, const struct wf_train_settings *s,
                                     struct wf_checkpointer **out, struct weft_error *err)
{
    *out = NULL;
    if (s->checkpoint.every == 0 || s->log.dir == NULL)
        return WEFT_OK;
    struct wf_checkpointer *c = calloc(1, sizeof *c);
    if (c == NULL)
        return no_memory(err);
    enum weft_status st = fill(c, t, s, err);
    if (st != WEFT_OK) {
        wf_checkpointer_free(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

static void join(pthread_t thread, bool *has)
{
    if (*has)
        pthread_join(thread, NULL);
    *has = false;
}

static enum weft_status is_written(void *checkpointer, bool *yes, struct weft_error *err)
{
    struct wf_checkpointer *c = checkpointer;
    (void)err;
    *yes = atomic_load(&c->state) != WF_CHECKPOINT_STATE_BUSY;
    return WEFT_OK;
}

static enum weft_status is_committed(void *checkpointer, bool *yes, struct weft_error *err)
{
    struct wf_checkpointer *c = checkpointer;
    (void)err;
    *yes = !atomic_load(&c->committing);
    return WEFT_OK;
}

/* A disk may take longer than others wait for a heartbeat: this rank gives some meanwhile. */
static enum weft_status wait_for(struct weft_comm *comm, weft_ready_fn *ready,
                                 struct wf_checkpointer *c, pthread_t thread, bool *has,
                                 struct weft_error *err)
{
    if (comm != NULL && *has)
        WEFT_TRY(weft_comm_wait_until(comm, UINT32_MAX, ready, c, err));
    join(thread, has);
    return WEFT_OK;
}

static void release_file(struct wf_checkpointer *c)
{
    wf_store_writer_free(c->writer);
    c->writer = NULL;
    free(c->blob);
    c->blob = NULL;
}

void wf_checkpointer_free(struct wf_checkpointer *c)
{
    if (c == NULL)
        return;
    join(c->thread, &c->has_thread);
    join(c->committer, &c->has_committer);
    release_file(c);
    for (uint32_t r = 0; c->blobs != NULL && r < c->n_ranks; r++)
        free(c->blobs[r]);
    free(c->blobs);
    free(c->blob_sizes);
    free(c->snapshot);
    free(c->config);
    free(c->model);
    free(c->root);
    free(c);
}

/* -- this rank's file ----------------------------------------------------------------------- */

enum wf_checkpoint_state wf_checkpointer_state(const struct wf_checkpointer *c)
{
    if (c == NULL)
        return WF_CHECKPOINT_STATE_IDLE;
    /* While rank 0 puts one together, no other can begin. */
    if (atomic_load(&c->committing))
        return WF_CHECKPOINT_STATE_BUSY;
    return (enum wf_checkpoint_state)atomic_load(&c->state);
}

static void *write_file(void *arg)
{
    struct wf_checkpointer *c = arg;
    enum weft_status st =
        wf_store_writer_finish(c->writer, &c->blob, &c->blob_bytes, &c->error);
    atomic_store(&c->state,
                 st == WEFT_OK ? WF_CHECKPOINT_STATE_WRITTEN : WF_CHECKPOINT_STATE_FAILED);
    return NULL;
}

static enum weft_status add_piece(struct wf_checkpointer *c, const struct wf_trainer *t,
                                  size_t tensor, enum wf_store_field what, const float *values,
                                  float **next, struct weft_error *err)
{
    size_t n_tensors;
    const struct wf_optim_tensor *o = &wf_optim_tensors(t->optim, &n_tensors)[tensor];
    const struct tensor_source *from = &t->sources[tensor];
    const struct wf_param_desc *d = &from->group->params[from->tensor]->desc;
    const uint64_t shape[2] = {d->shape[0], d->shape[1]};
    size_t n = o->end - o->begin;
    if (*next != NULL) {
        memcpy(*next, values, n * sizeof *values);
        values = *next;
        *next += n;
    }
    return wf_store_writer_add(c->writer, d->name, d->rank, shape, what, o->begin, values, n,
                               err);
}

static enum weft_status add_pieces(struct wf_checkpointer *c, const struct wf_trainer *t,
                                   struct weft_error *err)
{
    size_t n;
    const struct wf_optim_tensor *at = wf_optim_tensors(t->optim, &n);
    float *next = c->snapshot;
    for (size_t i = 0; i < n; i++) {
        WEFT_TRY(
            add_piece(c, t, i, WF_STORE_FIELD_VALUE, at[i].value + at[i].begin, &next, err));
        WEFT_TRY(add_piece(c, t, i, WF_STORE_FIELD_M, at[i].m, &next, err));
        WEFT_TRY(add_piece(c, t, i, WF_STORE_FIELD_V, at[i].v, &next, err));
    }
    return WEFT_OK;
}

/* A rank without a share, as there may be with many replicas, has nothing to write. */
static bool has_share(const struct wf_trainer *t)
{
    return snapshot_elements(t) > 0;
}

/* A failure is this rank's state, not an error: the run goes on. */
static void begin_file(struct wf_checkpointer *c, const struct wf_trainer *t)
{
    c->step = t->done;
    c->begin_ns = wf_clock_ns();
    c->error = (struct weft_error){0};
    if (!has_share(t)) {
        atomic_store(&c->state, WF_CHECKPOINT_STATE_WRITTEN);
        return;
    }
    atomic_store(&c->state, WF_CHECKPOINT_STATE_BUSY);
    enum weft_status st =
        wf_store_writer_new(c->root, c->step, c->run, c->rank, &c->writer, &c->error);
    if (st == WEFT_OK)
        st = add_pieces(c, t, &c->error);
    if (st != WEFT_OK) {
        atomic_store(&c->state, WF_CHECKPOINT_STATE_FAILED);
        return;
    }
    c->has_thread = pthread_create(&c->thread, NULL, write_file, c) == 0;
    if (!c->has_thread)
        write_file(c);
}

/* -- putting it together -------------------------------------------------------------------- */

static void commit(struct wf_checkpointer *c)
{
    const char **blobs = calloc(c->n_ranks, sizeof *blobs);
    size_t *sizes = calloc(c->n_ranks, sizeof *sizes), n = 0;
    for (uint32_t r = 0; blobs != NULL && sizes != NULL && r < c->n_ranks; r++)
        if (c->blob_sizes[r] > 0) {
            blobs[n] = c->blobs[r];
            sizes[n++] = c->blob_sizes[r];
        }
    const struct wf_store_commit_info parts = {.root = c->root,
                                               .step = c->step,
                                               .run = c->run,
                                               .config = c->config,
                                               .model = c->model,
                                               .blobs = blobs,
                                               .blob_bytes = sizes,
                                               .n_blobs = n};
    enum weft_status st = blobs == NULL || sizes == NULL
                              ? no_memory(&c->commit_error)
                              : wf_store_commit(&parts, c->keep, &c->commit_error);
    if (st == WEFT_OK) {
        c->committed = c->result.saved = c->step;
        c->result.seconds = (double)(wf_clock_ns() - c->begin_ns) * 1e-9;
    } else {
        snprintf(c->result.error, sizeof c->result.error, "%.299s", c->commit_error.msg);
    }
    free(blobs);
    free(sizes);
}

static void *commit_thread(void *arg)
{
    struct wf_checkpointer *c = arg;
    commit(c);
    atomic_store(&c->committing, false);
    return NULL;
}

static enum weft_status gather_blobs(struct wf_checkpointer *c, struct wf_trainer *t,
                                     struct weft_error *err)
{
    WEFT_TRY(weft_comm_gather_equal(t->comm, &c->blob_bytes, sizeof c->blob_bytes,
                                    c->blob_sizes, err));
    if (t->rank != 0)
        return c->blob_bytes == 0
                   ? WEFT_OK
                   : wf_comm_send_blocking(t->comm,
                                           wf_trainer_message(0, WF_MESSAGE_BLOB, c->step,
                                                              c->blob, c->blob_bytes),
                                           err);
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        free(c->blobs[r]);
        c->blobs[r] = malloc(c->blob_sizes[r] + 1);
        if (c->blobs[r] == NULL)
            return no_memory(err);
        if (r == 0 && c->blob_bytes > 0)
            memcpy(c->blobs[0], c->blob, c->blob_bytes);
        else if (c->blob_sizes[r] > 0)
            WEFT_TRY(wf_comm_receive_blocking(
                t->comm,
                wf_trainer_message(r, WF_MESSAGE_BLOB, c->step, c->blobs[r], c->blob_sizes[r]),
                err));
    }
    return WEFT_OK;
}

static enum weft_status collect(struct wf_checkpointer *c, struct wf_trainer *t,
                                bool background, struct weft_error *err)
{
    join(c->thread, &c->has_thread);
    WEFT_TRY(gather_blobs(c, t, err));
    if (t->rank == 0) {
        join(c->committer, &c->has_committer);
        atomic_store(&c->committing, true);
        c->has_committer = pthread_create(&c->committer, NULL, commit_thread, c) == 0;
        if (!c->has_committer)
            commit_thread(c);
        if (!background)
            WEFT_TRY(wait_for(t->comm, is_committed, c, c->committer, &c->has_committer, err));
    }
    release_file(c);
    c->blob_bytes = 0;
    atomic_store(&c->state, WF_CHECKPOINT_STATE_IDLE);
    return WEFT_OK;
}

static void drop(struct wf_checkpointer *c)
{
    join(c->thread, &c->has_thread);
    release_file(c);
    c->blob_bytes = 0;
    if (c->rank == 0)
        (void)wf_store_abort(c->root, c->step, c->run, NULL);
    atomic_store(&c->state, WF_CHECKPOINT_STATE_IDLE);
}

/* -- what is done when ---------------------------------------------------------------------- */

enum wf_checkpoint_action wf_checkpointer_decide(struct wf_checkpointer *c, uint64_t step,
                                                 const uint32_t *states, uint32_t n)
{
    uint32_t count[4] = {0};
    if (c == NULL)
        return WF_CHECKPOINT_ACTION_NONE;
    for (uint32_t r = 0; r < n; r++)
        count[states[r] & 3]++;
    c->due = c->due || step % c->every == 0;
    if (count[WF_CHECKPOINT_STATE_BUSY] > 0)
        return WF_CHECKPOINT_ACTION_NONE;
    if (count[WF_CHECKPOINT_STATE_FAILED] > 0)
        return WF_CHECKPOINT_ACTION_DISCARD;
    if (count[WF_CHECKPOINT_STATE_WRITTEN] == n)
        return WF_CHECKPOINT_ACTION_COLLECT;
    if (count[WF_CHECKPOINT_STATE_IDLE] < n || !c->due)
        return WF_CHECKPOINT_ACTION_NONE;
    c->due = false;
    return WF_CHECKPOINT_ACTION_BEGIN;
}

/* Rank 0 hears why a rank could not write. */
static enum weft_status gather_failures(struct wf_checkpointer *c, struct wf_trainer *t,
                                        bool *failed, struct weft_error *err)
{
    struct failure {
        uint32_t failed;
        char text[300];
    } own = {.failed = atomic_load(&c->state) == WF_CHECKPOINT_STATE_FAILED};
    snprintf(own.text, sizeof own.text, "%.299s", c->error.msg);
    struct failure *all = calloc(t->n_ranks, sizeof *all);
    enum weft_status st = all == NULL
                              ? no_memory(err)
                              : weft_comm_gather_equal(t->comm, &own, sizeof own, all, err);
    uint32_t any = 0;
    for (uint32_t r = 0; st == WEFT_OK && t->rank == 0 && r < t->n_ranks; r++)
        if (all[r].failed && !any) {
            any = 1;
            snprintf(c->result.error, sizeof c->result.error, "%s", all[r].text);
        }
    if (st == WEFT_OK && t->comm != NULL)
        st = weft_comm_broadcast(t->comm, &any, sizeof any, err);
    *failed = any != 0;
    free(all);
    return st;
}

/* Collects what all have written, or drops it when one could not. */
static enum weft_status conclude(struct wf_checkpointer *c, struct wf_trainer *t,
                                 struct weft_error *err)
{
    bool failed;
    WEFT_TRY(wait_for(t->comm, is_written, c, c->thread, &c->has_thread, err));
    WEFT_TRY(gather_failures(c, t, &failed, err));
    if (!failed)
        return collect(c, t, false, err);
    drop(c);
    return WEFT_OK;
}

enum weft_status wf_checkpointer_apply(struct wf_checkpointer *c, struct wf_trainer *t,
                                       enum wf_checkpoint_action action, struct weft_error *err)
{
    bool failed;
    switch (action) {
    case WF_CHECKPOINT_ACTION_NONE:
        return WEFT_OK;
    case WF_CHECKPOINT_ACTION_BEGIN:
        begin_file(c, t);
        return c->background ? WEFT_OK : conclude(c, t, err);
    case WF_CHECKPOINT_ACTION_COLLECT:
        return collect(c, t, true, err);
    case WF_CHECKPOINT_ACTION_DISCARD:
        WEFT_TRY(gather_failures(c, t, &failed, err));
        drop(c);
        return WEFT_OK;
    }
    return WEFT_OK;
}

/* Rank 0 knows whether there is one of this step, or why not. */
static enum weft_status broadcast_outcome(struct wf_checkpointer *c, struct wf_trainer *t,
                                          bool *there, char why[WHY], struct weft_error *err)
{
    struct {
        uint32_t there;
        char why[WHY];
    } all = {0};
    if (t->rank == 0) {
        all.there = c->committed == t->done;
        snprintf(all.why, sizeof all.why, "%s", c->result.error);
    }
    if (t->comm != NULL)
        WEFT_TRY(weft_comm_broadcast(t->comm, &all, sizeof all, err));
    *there = all.there != 0;
    memcpy(why, all.why, sizeof all.why);
    return WEFT_OK;
}

enum weft_status wf_checkpointer_save(struct wf_checkpointer *c, struct wf_trainer *t,
                                      struct weft_error *err)
{
    bool there;
    char why[WHY];
    if (c == NULL)
        return WEFT_OK;
    /* What is under way comes first. */
    WEFT_TRY(wait_for(t->comm, is_committed, c, c->committer, &c->has_committer, err));
    if (atomic_load(&c->state) != WF_CHECKPOINT_STATE_IDLE)
        WEFT_TRY(conclude(c, t, err));
    WEFT_TRY(broadcast_outcome(c, t, &there, why, err));
    if (there)
        return WEFT_OK;
    begin_file(c, t);
    WEFT_TRY(conclude(c, t, err));
    WEFT_TRY(broadcast_outcome(c, t, &there, why, err));
    if (there)
        return WEFT_OK;
    c->result.error[0] = '\0'; /* it is returned */
    return WEFT_FAIL(err, WEFT_IO, "no checkpoint of step %" PRIu64 ": %s", t->done, why);
}

struct wf_checkpoint_result wf_checkpointer_poll(struct wf_checkpointer *c)
{
    struct wf_checkpoint_result none = {0};
    if (c == NULL || atomic_load(&c->committing))
        return none;
    struct wf_checkpoint_result result = c->result;
    c->result = none;
    return result;
}
