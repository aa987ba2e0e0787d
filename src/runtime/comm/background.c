/* Runs work on a separate thread and sends heartbeats while the rank waits for it. */
#include "runtime/comm/background.h"

#include "base/error.h"

static void *run(void *arg)
{
    struct wf_background *b = arg;
    b->status = b->work(b->arg, &b->err);
    atomic_store(&b->running, false);
    return NULL;
}

static enum weft_status is_done(void *arg, bool *yes, struct weft_error *err)
{
    (void)err;
    *yes = !wf_background_is_running(arg);
    return WEFT_OK;
}

void wf_background_start(struct wf_background *b, wf_background_fn *work, void *arg)
{
    b->work = work;
    b->arg = arg;
    b->status = WEFT_OK;
    b->err = (struct weft_error){0};
    atomic_store(&b->running, true);
    b->has_thread = pthread_create(&b->thread, NULL, run, b) == 0;
    if (!b->has_thread)
        run(b);
}

bool wf_background_is_running(const struct wf_background *b)
{
    return atomic_load(&b->running);
}

void wf_background_join(struct wf_background *b)
{
    if (b->has_thread)
        pthread_join(b->thread, NULL);
    b->has_thread = false;
}

enum weft_status wf_background_wait(struct wf_background *b, struct weft_comm *comm,
                                    struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    if (comm != NULL && b->has_thread)
        st = weft_comm_wait_until(comm, UINT32_MAX, is_done, b, err);
    if (st == WEFT_OK)
        wf_background_join(b);
    return st;
}

enum weft_status wf_background_run(struct weft_comm *comm, wf_background_fn *work, void *arg,
                                   struct weft_error *err)
{
    if (comm == NULL)
        return work(arg, err);
    struct wf_background b = {0};
    wf_background_start(&b, work, arg);
    enum weft_status st = wf_background_wait(&b, comm, err);
    wf_background_join(&b);
    if (st != WEFT_OK || b.status == WEFT_OK)
        return st;
    if (err != NULL)
        *err = b.err;
    return b.status;
}
