/* Implements a ring of jobs.  The calling thread fills a slot with text and consumes the result
 * before it fills the slot again.  Workers process the filled slots in order.
 *
 *     free ──► filled ──► started ──► done ──► free
 *       calling thread  └─ workers ─┘   calling thread
 */
#include "training/data/text_workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct worker_slot {
    struct wf_text_job job;
    bool done;
    enum weft_status status;
    struct weft_error err;
};

struct ring {
    const struct wf_text_workers *workers; /* borrowed */
    struct worker_slot *slots;             /* owned */
    size_t n_slots;
    pthread_mutex_t lock; /* guards the fields below and the `done` field of all slots */
    pthread_cond_t changed;
    uint64_t n_filled, n_started; /* number of slots filled and started since the start */
    bool closed;                  /* no more slots will be filled */
    uint32_t next_worker;
};

static void *work(void *arg)
{
    struct ring *r = arg;
    pthread_mutex_lock(&r->lock);
    uint32_t worker = r->next_worker++;
    for (;;) {
        while (r->n_started == r->n_filled && !r->closed)
            pthread_cond_wait(&r->changed, &r->lock);
        if (r->n_started == r->n_filled)
            break;
        struct worker_slot *s = &r->slots[r->n_started++ % r->n_slots];
        pthread_mutex_unlock(&r->lock);
        s->status = r->workers->work(r->workers->ctx, worker, &s->job, &s->err);
        pthread_mutex_lock(&r->lock);
        s->done = true;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Waits until a slot is done and consumes its result. */
static enum weft_status consume_slot(struct ring *r, uint64_t i, struct weft_error *err)
{
    struct worker_slot *s = &r->slots[i % r->n_slots];
    pthread_mutex_lock(&r->lock);
    while (!s->done)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (s->status != WEFT_OK) {
        if (err != NULL)
            *err = s->err;
        return s->status;
    }
    return r->workers->consume == NULL ? WEFT_OK
                                       : r->workers->consume(r->workers->ctx, &s->job, err);
}

static void submit_slot(struct ring *r, struct worker_slot *s)
{
    pthread_mutex_lock(&r->lock);
    s->done = false;
    r->n_filled++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Reads all text and consumes all results.  A read error is returned only after the results of
 * the text before it are consumed. */
static enum weft_status run_ring(struct ring *r, struct wf_text_reader *reader,
                                 struct weft_error *err)
{
    enum weft_status st = WEFT_OK, read_st = WEFT_OK;
    uint64_t n_read = 0, n_consumed = 0, bytes = 0;
    struct weft_error read_err = {0};
    bool more = true;
    while (st == WEFT_OK && (more || n_consumed < n_read)) {
        if (n_consumed < n_read && (!more || n_read - n_consumed == r->n_slots)) {
            bytes += r->slots[n_consumed % r->n_slots].job.segment.len;
            st = consume_slot(r, n_consumed++, err);
            if (r->workers->progress != NULL)
                r->workers->progress(r->workers->ctx, bytes);
            continue;
        }

        struct worker_slot *s = &r->slots[n_read % r->n_slots];
        s->job.bad.n = 0;
        read_st = wf_text_reader_next(reader, &s->job.segment, &more, &read_err);
        more = more && read_st == WEFT_OK;
        if (more) {
            submit_slot(r, s);
            n_read++;
        }
    }

    if (st == WEFT_OK && read_st != WEFT_OK) {
        if (err != NULL)
            *err = read_err;
        st = read_st;
    }
    return st;
}

static void close_ring(struct ring *r)
{
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    /* After an error, skip the slots that no worker has started. */
    r->n_started = r->n_filled;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static enum weft_status run_threads(struct ring *r, struct wf_text_reader *reader,
                                    struct weft_error *err)
{
    uint32_t n = 0;
    enum weft_status st = WEFT_OK;
    pthread_t *threads = calloc(r->workers->n_threads, sizeof *threads);
    if (threads == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u threads", r->workers->n_threads);

    while (n < r->workers->n_threads && pthread_create(&threads[n], NULL, work, r) == 0)
        n++;
    if (n == 0)
        st = WEFT_FAIL(err, WEFT_NOMEM, "cannot start a thread");
    else
        st = run_ring(r, reader, err);

    close_ring(r);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return st;
}

enum weft_status wf_text_workers_run(const struct wf_text_workers *workers,
                                     struct wf_text_reader *reader, struct weft_error *err)
{
    struct ring r = {.workers = workers, .n_slots = 2 * (size_t)workers->n_threads + 2};
    r.slots = calloc(r.n_slots, sizeof *r.slots);
    if (r.slots == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu segments of text", r.n_slots);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    enum weft_status st = run_threads(&r, reader, err);
    for (size_t i = 0; i < r.n_slots; i++) {
        free(r.slots[i].job.segment.text);
        weft_tokens_release(&r.slots[i].job.tokens);
        weft_tokens_release(&r.slots[i].job.doc_ends);
    }
    pthread_cond_destroy(&r.changed);
    pthread_mutex_destroy(&r.lock);
    free(r.slots);
    return st;
}
