/* Checks how this process was started, divides the cores, and starts the ranks of a session. */
#include <stdlib.h>

#include "base/error.h"
#include "base/numbers.h"
#include "compute/kern/pool.h"
#include "training/data/shard.h"
#include "training/layout/local_ranks.h"
#include "training/session/session_priv.h"
#include "training/trainer/handshake.h"
#include "training/trainer/load.h"

/* -- how the process was started ----------------------------------------------------------- */

/* Rejects a start with srun without MPI, because srun then starts independent tasks and each of
 * them would train the whole run. */
static enum weft_status check_tasks(const struct wf_train_settings *s, struct weft_error *err)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (tasks == NULL || atoi(tasks) <= 1 || s->parallel.transport == WF_TRAIN_TRANSPORT_INPROC)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "srun started %.20s tasks without MPI; use srun --mpi=pmix (Open MPI) or "
                     "--mpi=pmi2 (MPICH) for one run, or set parallel.transport to inproc for "
                     "independent runs",
                     tasks);
}

/* Checks parallel.transport.  The environment decides how ranks are started; the setting can
 * only confirm it. */
static enum weft_status check_transport(const struct wf_train_settings *s,
                                        struct weft_error *err)
{
    const char *launcher = weft_comm_launcher();
    if (launcher == NULL && s->parallel.transport == WF_TRAIN_TRANSPORT_MPI)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.transport is mpi, but this process was started without MPI; "
                         "start it with mpirun -n %llu",
                         (unsigned long long)s->parallel.pp * s->parallel.dp);
    if (launcher != NULL && s->parallel.transport == WF_TRAIN_TRANSPORT_INPROC)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.transport is inproc, but %s started this process as one of "
                         "several ranks; set it to auto",
                         launcher);
    return launcher == NULL ? check_tasks(s, err) : WEFT_OK;
}

/* Divides the cores among the ranks that share them. */
static void choose_threads(struct wf_train_settings *s)
{
    uint32_t n = wf_threads_per_rank(s->parallel.pp * s->parallel.dp);
    if (s->parallel.threads != 0 || n == 0)
        return;
    s->parallel.threads = n;
    s->parallel.given.threads = false; /* the value of the key is "auto" */
}

enum weft_status wf_session_prepare(struct wf_train_settings *s, struct weft_error *err)
{
    WEFT_TRY(wf_train_settings_infer_vocab(s, err));
    WEFT_TRY(wf_train_settings_check(s, err));
    WEFT_TRY(check_transport(s, err));
    choose_threads(s);
    return WEFT_OK;
}

/* -- before the ranks start ---------------------------------------------------------------- */

static enum weft_status return_error(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)comm;
    *err = *(const struct weft_error *)arg;
    return err->status;
}

enum weft_status wf_session_fail(enum weft_status st, struct weft_error *err)
{
    struct weft_error own = *err, joined = {0};
    own.status = st;
    if (weft_comm_launcher() != NULL)
        (void)weft_comm_run_mpi(return_error, &own, &joined);
    return st;
}

/* Checks the data before measuring, which takes seconds, so that missing data is reported
 * early. */
static enum weft_status check_data(const struct wf_train_settings *s, struct weft_error *err)
{
    struct wf_shards *shards = NULL;
    WEFT_TRY(wf_shards_open_split(s->data.train, "train", &shards, err));
    wf_shards_free(shards);
    return WEFT_OK;
}

enum weft_status wf_session_choose_layout(struct wf_train_settings *s, struct weft_comm *comm,
                                          struct wf_layout_choice *out, struct weft_error *err)
{
    struct weft_model model;
    *out = (struct wf_layout_choice){0};
    if (comm != NULL) {
        weft_comm_set_timeout(comm, s->train.timeout);
        WEFT_TRY(wf_handshake_settings(comm, s, err));
    }
    if (!s->parallel.automatic)
        return WEFT_OK;
    WEFT_TRY(check_data(s, err));
    WEFT_TRY(wf_load_run_model(s, &model, err));
    return wf_layout_choose(s, &model, comm, out, err);
}

void wf_session_emit_choice(const struct wf_session *session,
                            const struct wf_layout_choice *choice)
{
    const struct wf_train_settings *s = session->settings;
    if (choice->candidates.n > 0 && session->on_event != NULL)
        session->on_event(session->arg,
                          &(struct wf_session_event){.kind = WF_SESSION_EVENT_LAYOUT,
                                                     .settings = s,
                                                     .n_ranks = s->parallel.pp * s->parallel.dp,
                                                     .choice = choice});
}

enum weft_status wf_session_check_memory(const struct wf_topology *topology,
                                         struct weft_error *err)
{
    char need[WF_NUMBER_CHARS], have[WF_NUMBER_CHARS];
    size_t total, available = topology->memory_limit;
    bool mpi = weft_comm_launcher() != NULL;
    WEFT_TRY(wf_topology_total_bytes(topology, mpi, &total, err));
    if (mpi || available == 0 || total <= available)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_NOMEM,
                     "this run needs %s of memory, and %s are available; use recomputation, "
                     "more machines (mpirun), a smaller model or smaller micro-batches",
                     wf_bytes_text(need, total), wf_bytes_text(have, available));
}

/* -- starting them ------------------------------------------------------------------------- */

static enum weft_status check_fits(const struct wf_train_settings *s, struct weft_error *err)
{
    struct weft_model model;
    struct wf_topology topology;
    uint64_t n = (uint64_t)s->parallel.pp * s->parallel.dp;
    if (n > WF_MAX_THREADS)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.pp x parallel.dp is %llu; one process runs at most %d ranks",
                         (unsigned long long)n, WF_MAX_THREADS);
    WEFT_TRY(wf_load_run_model(s, &model, err));
    WEFT_TRY(wf_topology_init(&topology, s, &model, err));
    enum weft_status st = wf_session_check_memory(&topology, err);
    wf_topology_release(&topology);
    return st;
}

enum weft_status wf_session_run(struct wf_session *session, struct weft_error *err)
{
    struct wf_train_settings *s = session->settings;
    struct wf_layout_choice choice = {0};
    if (weft_comm_launcher() != NULL)
        return weft_comm_run_mpi(wf_session_run_rank, session, err);

    enum weft_status st = wf_session_choose_layout(s, NULL, &choice, err);
    if (st == WEFT_OK)
        wf_session_emit_choice(session, &choice);
    wf_layout_choice_release(&choice);
    if (st == WEFT_OK)
        st = check_fits(s, err);
    if (st != WEFT_OK)
        return st;
    return weft_comm_run_threads(s->parallel.pp * s->parallel.dp, wf_session_run_rank, session,
                                 err);
}
