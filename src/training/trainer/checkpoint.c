/* The progress of a checkpoint over all ranks, and its commit on rank 0. */
#include "training/trainer/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/comm/background.h"
#include "training/ckpt/store.h"
#include "training/data/tokenizer.h"
#include "training/trainer/checkpoint_file.h"
#include "training/trainer/data_hash.h"
#include "training/trainer/messages.h"

enum { RUN_NAME = 24, CAUSE = 300 };

struct wf_checkpointer {
    struct weft_comm *comm; /* borrowed; NULL: this rank is the only one */
    uint32_t rank, n_ranks;
    char *root; /* owned */
    char run[RUN_NAME];
    uint32_t every;
    size_t keep;
    bool background;

    /* The checkpoint in progress.  Both flags have the same value on all ranks. */
    bool due, in_progress;
    uint64_t step;
    int64_t begin_ns;
    struct wf_checkpoint_file file; /* the file of this rank */

    /* The members below are used on rank 0 only. */
    char *config, *model; /* owned */
    char tokenizer[WF_TOKENIZER_HASH_SIZE];
    struct wf_data_hash *data; /* borrowed; NULL: the hashes are not recorded */
    uint32_t *states;          /* owned: (n_ranks) */
    char **blobs;              /* owned: (n_ranks), each pointer owned */
    size_t *blob_bytes;        /* owned: (n_ranks) */
    struct wf_background committer;
    /* While the committer runs, only its thread may access the members below. */
    uint64_t committed; /* step of the newest checkpoint of this run */
    struct wf_checkpoint_result result;
};

enum weft_status wf_checkpoint_no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for checkpoints");
}

static enum weft_status broadcast(const struct wf_checkpointer *c, void *data, size_t bytes,
                                  struct weft_error *err)
{
    return c->comm == NULL ? WEFT_OK : weft_comm_broadcast(c->comm, data, bytes, err);
}

/* -- creation ------------------------------------------------------------------------------ */

static enum weft_status prepare_root(void *checkpointer, struct weft_error *err)
{
    struct wf_checkpointer *c = checkpointer;
    return wf_store_prepare(c->root, NULL, err);
}

static enum weft_status init_root(struct wf_checkpointer *c,
                                  const struct wf_checkpointer_setup *setup,
                                  struct weft_error *err)
{
    c->config = strdup(setup->config);
    c->model = strdup(setup->model);
    c->data = setup->data;
    snprintf(c->tokenizer, sizeof c->tokenizer, "%s",
             setup->tokenizer == NULL ? "" : setup->tokenizer);
    c->states = calloc(c->n_ranks, sizeof *c->states);
    c->blobs = calloc(c->n_ranks, sizeof *c->blobs);
    c->blob_bytes = calloc(c->n_ranks, sizeof *c->blob_bytes);
    if (c->config == NULL || c->model == NULL || c->states == NULL || c->blobs == NULL ||
        c->blob_bytes == NULL)
        return wf_checkpoint_no_memory(err);
    return wf_background_run(c->comm, prepare_root, c, err);
}

static enum weft_status init(struct wf_checkpointer *c,
                             const struct wf_checkpointer_setup *setup, struct weft_error *err)
{
    uint64_t run = (uint64_t)wf_clock_ns();
    c->comm = setup->comm;
    c->rank = c->comm == NULL ? 0 : weft_comm_rank(c->comm);
    c->n_ranks = c->comm == NULL ? 1 : weft_comm_size(c->comm);
    c->every = setup->every;
    c->keep = setup->keep;
    c->background = setup->background;
    c->root = strdup(setup->root);
    if (c->root == NULL)
        return wf_checkpoint_no_memory(err);

    if (c->rank == 0)
        WEFT_TRY(init_root(c, setup, err));
    WEFT_TRY(broadcast(c, &run, sizeof run, err));
    snprintf(c->run, sizeof c->run, "%016" PRIx64, run);
    return wf_checkpoint_file_init(&c->file, setup->tensors, setup->n_tensors,
                                   setup->background, err);
}

enum weft_status wf_checkpointer_new(const struct wf_checkpointer_setup *setup,
                                     struct wf_checkpointer **out, struct weft_error *err)
{
    struct wf_checkpointer *c = calloc(1, sizeof *c);
    if (c == NULL)
        return wf_checkpoint_no_memory(err);
    enum weft_status st = init(c, setup, err);
    if (st != WEFT_OK) {
        wf_checkpointer_free(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

size_t wf_checkpointer_snapshot_bytes(const struct wf_checkpointer *c)
{
    return c == NULL ? 0 : c->file.snapshot_bytes;
}

void wf_checkpointer_free(struct wf_checkpointer *c)
{
    if (c == NULL)
        return;
    wf_checkpoint_file_release(&c->file);
    wf_background_join(&c->committer);
    for (uint32_t r = 0; c->blobs != NULL && r < c->n_ranks; r++)
        free(c->blobs[r]);
    free(c->blobs);
    free(c->blob_bytes);
    free(c->states);
    free(c->config);
    free(c->model);
    free(c->root);
    free(c);
}

/* -- commit -------------------------------------------------------------------------------- */

static enum weft_status store_commit(struct wf_checkpointer *c, struct weft_error *err)
{
    const char **blobs = calloc(c->n_ranks, sizeof *blobs);
    size_t *sizes = calloc(c->n_ranks, sizeof *sizes), n = 0;
    enum weft_status st =
        blobs == NULL || sizes == NULL ? wf_checkpoint_no_memory(err) : WEFT_OK;
    for (uint32_t r = 0; st == WEFT_OK && r < c->n_ranks; r++)
        if (c->blob_bytes[r] > 0) {
            blobs[n] = c->blobs[r];
            sizes[n++] = c->blob_bytes[r];
        }

    const struct wf_store_commit_info info = {.root = c->root,
                                              .step = c->step,
                                              .run = c->run,
                                              .config = c->config,
                                              .model = c->model,
                                              .tokenizer = c->tokenizer,
                                              .data = wf_data_hash_wait(c->data),
                                              .blobs = blobs,
                                              .blob_bytes = sizes,
                                              .n_blobs = n};
    if (st == WEFT_OK)
        st = wf_store_commit(&info, c->keep, err);
    free(blobs);
    free(sizes);
    return st;
}

static enum weft_status commit(void *checkpointer, struct weft_error *err)
{
    struct wf_checkpointer *c = checkpointer;
    enum weft_status st = store_commit(c, err);
    if (st == WEFT_OK) {
        c->committed = c->result.saved = c->step;
        c->result.seconds = (double)(wf_clock_ns() - c->begin_ns) * 1e-9;
    } else {
        snprintf(c->result.error, sizeof c->result.error, "%.299s", err->msg);
    }
    return st;
}

static enum weft_status gather_blobs(struct wf_checkpointer *c, struct weft_error *err)
{
    const struct wf_checkpoint_file *f = &c->file;
    WEFT_TRY(weft_comm_gather_equal(c->comm, &f->blob_bytes, sizeof f->blob_bytes,
                                    c->blob_bytes, err));
    if (c->rank != 0 && f->blob_bytes == 0)
        return WEFT_OK;
    if (c->rank != 0)
        return wf_comm_send_blocking(
            c->comm, wf_trainer_message(0, WF_MESSAGE_BLOB, c->step, f->blob, f->blob_bytes),
            err);

    for (uint32_t r = 0; r < c->n_ranks; r++) {
        free(c->blobs[r]);
        c->blobs[r] = malloc(c->blob_bytes[r] + 1);
        if (c->blobs[r] == NULL)
            return wf_checkpoint_no_memory(err);
        if (c->blob_bytes[r] == 0)
            continue;
        if (r == 0)
            memcpy(c->blobs[0], f->blob, f->blob_bytes);
        else
            WEFT_TRY(wf_comm_receive_blocking(
                c->comm,
                wf_trainer_message(r, WF_MESSAGE_BLOB, c->step, c->blobs[r], c->blob_bytes[r]),
                err));
    }
    return WEFT_OK;
}

/* Gathers the descriptions of the files of all ranks and starts the commit.  If `background` is
 * false, returns once the commit is done. */
static enum weft_status collect(struct wf_checkpointer *c, bool background,
                                struct weft_error *err)
{
    wf_background_join(&c->file.work);
    WEFT_TRY(gather_blobs(c, err));
    if (c->rank == 0) {
        wf_background_join(&c->committer);
        wf_background_start(&c->committer, commit, c);
        if (!background)
            WEFT_TRY(wf_background_wait(&c->committer, c->comm, err));
    }
    wf_checkpoint_file_reset(&c->file);
    c->in_progress = background;
    return WEFT_OK;
}

static void discard(struct wf_checkpointer *c)
{
    wf_checkpoint_file_reset(&c->file);
    if (c->rank == 0)
        (void)wf_store_abort(c->root, c->step, c->run, NULL);
    c->in_progress = false;
}

/* -- progress ------------------------------------------------------------------------------ */

/* Sends the causes of write failures to rank 0, which keeps the first cause. */
static enum weft_status gather_failures(struct wf_checkpointer *c, bool *failed,
                                        struct weft_error *err)
{
    struct failure {
        uint32_t failed;
        char cause[CAUSE];
    } own = {.failed = wf_checkpoint_file_state(&c->file) == WF_FILE_STATE_FAILED};
    if (own.failed)
        snprintf(own.cause, sizeof own.cause, "%.299s", c->file.work.err.msg);
    struct failure *all = calloc(c->n_ranks, sizeof *all);
    enum weft_status st = all == NULL
                              ? wf_checkpoint_no_memory(err)
                              : weft_comm_gather_equal(c->comm, &own, sizeof own, all, err);

    uint32_t any = 0;
    for (uint32_t r = 0; st == WEFT_OK && c->rank == 0 && r < c->n_ranks; r++)
        if (all[r].failed && !any) {
            any = 1;
            snprintf(c->result.error, sizeof c->result.error, "%s", all[r].cause);
        }
    free(all);
    if (st == WEFT_OK)
        st = broadcast(c, &any, sizeof any, err);
    *failed = any != 0;
    return st;
}

/* Waits for the files of all ranks, then commits the checkpoint, or discards it if a rank
 * failed. */
static enum weft_status finish(struct wf_checkpointer *c, struct weft_error *err)
{
    bool failed;
    WEFT_TRY(wf_background_wait(&c->file.work, c->comm, err));
    WEFT_TRY(gather_failures(c, &failed, err));
    if (!failed)
        return collect(c, false, err);
    discard(c);
    return WEFT_OK;
}

static void begin(struct wf_checkpointer *c, uint64_t step)
{
    c->in_progress = true;
    c->step = step;
    c->begin_ns = wf_clock_ns();
    wf_checkpoint_file_begin(&c->file, c->root, step, c->run, c->rank);
}

/* Returns the common state of all ranks: BUSY while the states differ or rank 0 commits, and
 * FAILED once all ranks are done and at least one has failed. */
static uint32_t common_state(const struct wf_checkpointer *c)
{
    uint32_t count[WF_N_FILE_STATES] = {0};
    for (uint32_t r = 0; r < c->n_ranks; r++)
        count[c->states[r] % WF_N_FILE_STATES]++;
    if (count[WF_FILE_STATE_BUSY] > 0 || wf_background_is_running(&c->committer))
        return WF_FILE_STATE_BUSY;
    if (count[WF_FILE_STATE_FAILED] > 0)
        return WF_FILE_STATE_FAILED;
    if (count[WF_FILE_STATE_WRITTEN] == c->n_ranks)
        return WF_FILE_STATE_WRITTEN;
    return count[WF_FILE_STATE_IDLE] == c->n_ranks ? WF_FILE_STATE_IDLE : WF_FILE_STATE_BUSY;
}

static enum weft_status advance(struct wf_checkpointer *c, struct weft_error *err)
{
    uint32_t state = wf_checkpoint_file_state(&c->file);
    bool failed;
    WEFT_TRY(weft_comm_gather_equal(c->comm, &state, sizeof state, c->states, err));
    if (c->rank == 0)
        state = common_state(c);
    WEFT_TRY(broadcast(c, &state, sizeof state, err));

    switch ((enum wf_file_state)state) {
    case WF_FILE_STATE_IDLE: /* the checkpoint is committed */
        c->in_progress = false;
        return WEFT_OK;
    case WF_FILE_STATE_WRITTEN:
        return collect(c, true, err);
    case WF_FILE_STATE_FAILED:
        WEFT_TRY(gather_failures(c, &failed, err));
        discard(c);
        return WEFT_OK;
    case WF_FILE_STATE_BUSY:
    case WF_N_FILE_STATES:
        break;
    }
    return WEFT_OK;
}

enum weft_status wf_checkpointer_after_step(struct wf_checkpointer *c, uint64_t step,
                                            struct weft_error *err)
{
    if (c == NULL)
        return WEFT_OK;
    c->due = c->due || step % c->every == 0;
    if (c->in_progress)
        WEFT_TRY(advance(c, err));
    if (c->in_progress || !c->due)
        return WEFT_OK;
    c->due = false;
    begin(c, step);
    return c->background ? WEFT_OK : finish(c, err);
}

/* Broadcasts from rank 0 whether a checkpoint of this step exists and, if not, the reason. */
static enum weft_status broadcast_outcome(struct wf_checkpointer *c, uint64_t step,
                                          bool *exists, char cause[CAUSE],
                                          struct weft_error *err)
{
    struct {
        uint32_t exists;
        char cause[CAUSE];
    } all = {0};
    if (c->rank == 0) {
        all.exists = c->committed == step;
        snprintf(all.cause, sizeof all.cause, "%s", c->result.error);
    }
    WEFT_TRY(broadcast(c, &all, sizeof all, err));
    *exists = all.exists != 0;
    memcpy(cause, all.cause, sizeof all.cause);
    return WEFT_OK;
}

enum weft_status wf_checkpointer_save(struct wf_checkpointer *c, uint64_t step,
                                      struct weft_error *err)
{
    bool exists;
    char cause[CAUSE];
    if (c == NULL)
        return WEFT_OK;

    /* Finish the checkpoint in progress first, because it may already be the one of this
     * step. */
    WEFT_TRY(wf_background_wait(&c->committer, c->comm, err));
    if (wf_checkpoint_file_state(&c->file) != WF_FILE_STATE_IDLE)
        WEFT_TRY(finish(c, err));
    c->in_progress = false;
    WEFT_TRY(broadcast_outcome(c, step, &exists, cause, err));
    if (exists)
        return WEFT_OK;

    begin(c, step);
    WEFT_TRY(finish(c, err));
    WEFT_TRY(broadcast_outcome(c, step, &exists, cause, err));
    if (exists)
        return WEFT_OK;
    c->result.error[0] = '\0'; /* the error is returned, so it must not be reported again */
    return WEFT_FAIL(err, WEFT_IO, "no checkpoint of step %" PRIu64 ": %s", step, cause);
}

struct wf_checkpoint_result wf_checkpointer_poll(struct wf_checkpointer *c)
{
    struct wf_checkpoint_result none = {0};
    if (c == NULL || wf_background_is_running(&c->committer))
        return none;
    struct wf_checkpoint_result result = c->result;
    c->result = none;
    return result;
}
