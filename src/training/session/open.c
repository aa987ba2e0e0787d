/* Prepares one rank of a session for its first step: run directory, trainer, logs, plan
 * file. */
#define _DEFAULT_SOURCE /* gethostname */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "training/run/rundir_plan.h"
#include "training/session/session_priv.h"
#include "training/trainer/load.h"

/* -- all ranks ----------------------------------------------------------------------------- */

enum weft_status wf_session_gather_totals(struct weft_comm *comm,
                                          const struct wf_trainer *trainer,
                                          const struct wf_cores *cores,
                                          struct wf_rank_totals *out, struct weft_error *err)
{
    struct wf_trainer_info info = wf_trainer_info(trainer);
    struct wf_rank_resources own = {.peak = wf_trainer_peak_flops(trainer),
                                    .threads = info.threads,
                                    .cores = *cores,
                                    .bytes = info.bytes};
    uint32_t n = info.n_ranks;
    struct wf_rank_resources *all = calloc(n, sizeof *all);
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        own.host[0] = '\0';
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the resources of %u ranks", n)
                    : weft_comm_gather_equal(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && info.rank == 0)
        *out = wf_rank_totals(all, n);
    free(all);
    return st;
}

/* -- the run directory --------------------------------------------------------------------- */

static enum weft_status write_plan(const struct wf_session_rank *r,
                                   const struct wf_trainer_info *i, struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    const struct wf_rank_bytes *b = &i->bytes;
    const struct wf_rundir_plan plan = {
        .topology = i->topology,
        .schedule = s->parallel.schedule,
        .cache = (enum weft_block_cache)s->parallel.cache,
        .n_params = i->n_params,
        .bubble_plan = i->bubble_plan,
        .planned_bytes = i->planned_bytes,
        .bytes = {b->weights, b->gradients, b->packed, b->activations, b->messages, b->scratch,
                  b->moments, b->total},
    };
    return wf_rundir_write_plan(s->log.dir, r->comm, &plan, err);
}

/* Copies the companion files of model.dir into the run, so that they are still there when the
 * model is saved or a checkpoint is converted.  A resumed run keeps its copy. */
static enum weft_status copy_source(struct wf_session_rank *r, const char *copy,
                                    struct weft_error *err)
{
    char *source = NULL;
    if (r->resumed > 0 && access(copy, F_OK) == 0)
        return WEFT_OK;
    WEFT_TRY(wf_load_find_run_source(r->settings, &source, err));
    enum weft_status st = source == NULL ? WEFT_OK : wf_companions_copy(source, copy, err);
    free(source);
    return st;
}

static enum weft_status init_companions(struct wf_session_rank *r,
                                        const struct weft_model *model, struct weft_error *err)
{
    char *copy = wf_path_join(r->settings->log.dir, WF_SOURCE_DIR);
    enum weft_status st =
        copy == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path") : WEFT_OK;
    if (st == WEFT_OK && r->settings->model.dir != NULL)
        st = copy_source(r, copy, err);
    if (st == WEFT_OK) {
        bool has_source = r->settings->model.dir != NULL && access(copy, F_OK) == 0;
        bool has_tokenizer = access(r->dir.tokenizer, F_OK) == 0;
        st = wf_companions_init(&r->companions, has_source ? copy : NULL,
                                has_tokenizer ? r->dir.tokenizer : NULL, model, err);
    }
    free(copy);
    return st;
}

static enum weft_status init_directory(struct wf_session_rank *r,
                                       const struct wf_trainer_info *info,
                                       struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    char *tokenizer = NULL;
    WEFT_TRY(wf_load_find_run_tokenizer(s, info->model.vocab, &tokenizer, err));
    enum weft_status st = wf_rundir_init(&r->dir, s->log.dir, s, tokenizer, r->resumed, err);
    free(tokenizer);
    if (st == WEFT_OK)
        st = init_companions(r, &info->model, err);
    if (st == WEFT_OK)
        st = wf_rundir_write_schedule(s->log.dir, wf_topology_schedule(info->topology, 0), err);
    if (st == WEFT_OK && s->log.trace_steps > 0)
        st = wf_rundir_make_dir(s->log.dir, "trace", err);
    return st;
}

/* Starts the server of the report.  The run does not need the report, so a failure causes only
 * a warning. */
static void start_server(struct wf_session_rank *r)
{
    const struct wf_train_settings *s = r->settings;
    struct weft_error err = {0};
    if (s->log.serve == 0)
        return;
    if (wf_report_server_start((const char *const[]){s->log.dir}, 1, (uint16_t)s->log.serve,
                               &r->server, &err) != WEFT_OK)
        wf_session_warn(r, "the report is not served: %s", err.msg);
    else
        wf_session_emit(r, (struct wf_session_event){.kind = WF_SESSION_EVENT_SERVING});
}

static enum weft_status open_tensorboard(struct wf_session_rank *r, struct weft_error *err)
{
    char *dir = wf_path_join(r->settings->log.dir, "tensorboard");
    enum weft_status st = dir == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path")
                              : wf_tensorboard_new(dir, r->resumed + 1, &r->tensorboard, err);
    free(dir);
    return st;
}

static enum weft_status open_directory(struct wf_session_rank *r,
                                       const struct wf_trainer_info *info,
                                       struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    if (s->log.dir == NULL)
        return WEFT_OK;
    if (r->rank == 0)
        WEFT_TRY(init_directory(r, info, err));
    WEFT_TRY(write_plan(r, info, err));
    if (r->rank == 0)
        start_server(r);
    if (r->rank == 0 && s->log.tensorboard)
        WEFT_TRY(open_tensorboard(r, err));
    return wf_rundir_record_activity(s->log.dir, r->comm, err);
}

/* -- opening ------------------------------------------------------------------------------- */

enum weft_status wf_session_open(struct wf_session_rank *r, struct weft_error *err)
{
    const struct wf_train_settings *s = r->settings;
    enum wf_resume_mode resume = s->checkpoint.resume_mode;
    if (s->log.dir != NULL && r->rank == 0)
        WEFT_TRY(wf_rundir_open(&r->dir, s->log.dir, resume != WF_RESUME_NO, err));

    /* The affinity must be read before the trainer binds threads to cores. */
    struct wf_cores cores = wf_cores_affinity();
    WEFT_TRY(wf_trainer_new(s, r->comm, &r->trainer, err));
    struct wf_session_start start = {.info = wf_trainer_info(r->trainer),
                                     .transport = weft_comm_name(r->comm)};
    const struct wf_trainer_info *info = &start.info;
    r->resumed = info->resumed;
    /* Only for "auto": a path may belong to another directory. */
    if (resume == WF_RESUME_NEWEST)
        r->saved = info->resumed;

    if (s->log.sample != 0 && r->rank == 0)
        WEFT_TRY(wf_sampler_init(&r->sampler, s, &info->model, err));
    WEFT_TRY(open_directory(r, info, err));
    start.archived_model = r->dir.archived_model;
    start.archived_metrics = r->dir.archived_metrics;

    WEFT_TRY(wf_session_gather_totals(r->comm, r->trainer, &cores, &start.totals, err));
    r->token_flops = info->token_flops;
    r->bubble_plan = info->bubble_plan;
    r->peak_flops = start.totals.peak;
    wf_session_emit(r,
                    (struct wf_session_event){.kind = WF_SESSION_EVENT_READY, .start = &start});
    if (r->companions.note[0] != '\0')
        wf_session_warn(r, "%s", r->companions.note);
    return WEFT_OK;
}
