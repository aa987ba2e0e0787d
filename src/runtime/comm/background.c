#include "runtime/comm/background.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

struct job {
    wf_background_fn *work;
    void *arg;
    enum weft_status status;
    struct weft_error err;
    atomic_bool done;
};

static void *run(void *arg)
{
    struct job *job = arg;
    job->status = job->work(job->arg, &job->err);
    atomic_store(&job->done, true);
    return NULL;
}

static enum weft_status is_done(void *arg, bool *yes, struct weft_error *err)
{
    struct job *job = arg;
    (void)err;
    *yes = atomic_load(&job->done);
    return WEFT_OK;
}

enum weft_status wf_background_run(struct weft_comm *comm, wf_background_fn *work, void *arg,
                                   struct weft_error *err)
{
    struct job job = {.work = work, .arg = arg};
    pthread_t thread;
    if (comm == NULL || pthread_create(&thread, NULL, run, &job) != 0)
        return work(arg, err);
    enum weft_status st = weft_comm_wait_until(comm, UINT32_MAX, is_done, &job, err);
    pthread_join(thread, NULL);
    if (st != WEFT_OK || job.status == WEFT_OK)
        return st;
    if (err != NULL)
        *err = job.err;
    return job.status;
}
