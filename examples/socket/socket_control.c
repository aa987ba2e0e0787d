/* Heartbeats, errors and the table of the socket transport.  See socket_priv.h. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "socket_priv.h"

#define MILLISECOND INT64_C(1000000)
#define LEAVE_NS (1000 * MILLISECOND)   /* maximum wait for other ranks at the end */
#define HEARTBEAT_NS (20 * MILLISECOND) /* minimum interval of heartbeats */
enum { BEATS_PER_TIMEOUT = 16 };

int64_t socket_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum weft_status socket_fail(struct weft_error *err, enum weft_status status,
                             const char *format, ...)
{
    va_list list;
    if (err == NULL)
        return status;
    err->status = status;
    err->file = __FILE__;
    err->line = __LINE__;
    va_start(list, format);
    vsnprintf(err->msg, sizeof err->msg, format, list);
    va_end(list);
    return status;
}

/* -- records ------------------------------------------------------------------------------- */

static void close_control(struct peer *p)
{
    close(p->at.control);
    p->at.control = -1;
}

/* Sends a whole record.  Returns false, and sends nothing, if the socket is full. */
static bool send_record(struct peer *p, const struct record *r)
{
    for (;;) {
        if (p->at.control < 0 || send(p->at.control, r, sizeof *r, MSG_NOSIGNAL) >= 0)
            return true;
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
            return false;
        if (errno != EINTR)
            return true; /* the peer has gone; reading shows why */
    }
}

/* Sends a record to all peers.  A peer whose socket is full gets it as soon as there is room,
 * unless this takes too long. */
static void send_to_all(struct endpoint *e, const struct record *r)
{
    for (uint32_t i = 0; i < e->n_ranks; i++) {
        int64_t begin = socket_now();
        while (i != e->rank && !send_record(&e->peers[i], r) &&
               socket_now() - begin < LEAVE_NS) {
            struct timespec nap = {0, MILLISECOND};
            nanosleep(&nap, NULL);
        }
    }
}

static struct record make_record(enum record_kind kind)
{
    struct record r;
    memset(&r, 0, sizeof r);
    r.kind = kind;
    return r;
}

static void take_error(struct endpoint *e, uint32_t from, enum weft_status status,
                       const char *msg)
{
    if (e->failed && e->failed_rank <= from)
        return;
    e->failed = true;
    e->failed_rank = from;
    socket_fail(&e->error, status, "%s", msg);
}

static void take_record(struct endpoint *e, uint32_t from, struct record *r)
{
    struct peer *p = &e->peers[from];
    p->heard_ns = socket_now();
    r->msg[sizeof r->msg - 1] = '\0';
    if (r->kind == RECORD_HEARTBEAT)
        p->activity = r->activity;
    if (r->kind == RECORD_ERROR)
        take_error(e, from, (enum weft_status)r->status, r->msg);
    if (r->kind == RECORD_LEFT)
        p->left = true;
    if (r->kind == RECORD_BYE)
        p->bye = true;
}

/* Handles the end of a peer's control socket.  A peer that has not sent RECORD_BYE
 * has died. */
static void take_end(struct endpoint *e, uint32_t from)
{
    struct peer *p = &e->peers[from];
    char msg[120];
    close_control(p);
    if (p->bye || p->left)
        return;
    p->left = true;
    snprintf(msg, sizeof msg,
             "rank %u has ended without closing its connection; it died or was killed", from);
    take_error(e, from, WEFT_PEER, msg);
}

static void listen_to(struct endpoint *e, uint32_t from)
{
    struct peer *p = &e->peers[from];
    struct record r;
    while (p->at.control >= 0) {
        ssize_t n = recv(p->at.control, &r, sizeof r, 0);
        if (n == (ssize_t)sizeof r)
            take_record(e, from, &r);
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        /* ECONNRESET is reported once, before the last records. */
        else if (n >= 0 || (errno != EINTR && errno != ECONNRESET))
            take_end(e, from);
    }
}

/* -- progress ------------------------------------------------------------------------------ */

static void prepare_poll(struct endpoint *e)
{
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        struct peer *p = &e->peers[r];
        struct pollfd *at = &e->polled[2 * r];
        bool writes = p->first_output != NULL && !e->gave_up;
        at[0].fd = e->gave_up ? -1 : p->at.data; /* messages belong to the caller again */
        at[0].events = (short)(POLLIN | (writes ? POLLOUT : 0));
        at[1].fd = p->at.control;
        at[1].events = POLLIN;
        at[0].revents = at[1].revents = 0;
    }
}

/* Handles the events of one peer. */
static enum weft_status take_events(struct endpoint *e, uint32_t r, struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    short data = e->polled[2 * r].revents;
    if (e->polled[2 * r + 1].revents != 0)
        listen_to(e, r);
    if ((data & POLLOUT) != 0)
        socket_write(e, r);
    if ((data & ~POLLOUT) != 0)
        st = socket_read(e, r, err);
    return st;
}

void socket_poll(struct endpoint *e, int milliseconds)
{
    struct weft_error err;
    enum weft_status st = WEFT_OK;
    prepare_poll(e);
    int n = poll(e->polled, 2 * (nfds_t)e->n_ranks, milliseconds);
    e->polled_ns = socket_now();
    if (n < 0 && errno != EINTR)
        st = socket_fail(&err, WEFT_PEER, "rank %u: poll: %s", e->rank, strerror(errno));
    for (uint32_t r = 0; n > 0 && st == WEFT_OK && r < e->n_ranks; r++)
        st = take_events(e, r, &err);
    if (st != WEFT_OK)
        socket_abort(e, &err);
}

/* Makes progress without waiting, at most once per millisecond. */
static void poll_sometimes(struct endpoint *e)
{
    if (!e->gave_up && socket_now() - e->polled_ns >= MILLISECOND)
        socket_poll(e, 0);
}

static enum weft_status socket_test(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *e = (struct endpoint *)self;
    (void)err;
    if (!e->gave_up && !m->done) /* after an error the caller asks for it next */
        socket_poll(e, 0);
    return WEFT_OK;
}

static void socket_release(void *self, struct weft_message *m)
{
    (void)self;
    (void)m;
}

static void socket_rest(void *self, uint64_t round, int64_t ns)
{
    struct endpoint *e = (struct endpoint *)self;
    (void)round;
    if (!e->gave_up)
        socket_poll(e, (int)((ns + MILLISECOND - 1) / MILLISECOND));
}

/* -- heartbeats ---------------------------------------------------------------------------- */

/* Returns false if the control socket is half full.  A rank that computes for a long time does
 * not read its heartbeats, and an error must still fit into the socket. */
static bool has_room(int fd)
{
    int used = 0, size = 0;
    socklen_t bytes = sizeof size;
    return fd >= 0 && ioctl(fd, SIOCOUTQ, &used) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &bytes) == 0 && used < size / 2;
}

static void socket_publish(void *self, const struct weft_activity *activity)
{
    struct endpoint *e = (struct endpoint *)self;
    int64_t now = socket_now(), gap = HEARTBEAT_NS;
    if (e->gave_up)
        return;
    poll_sometimes(e);
    if (activity->waits_for == e->published_peer && e->timeout_ns / BEATS_PER_TIMEOUT > gap)
        gap = e->timeout_ns / BEATS_PER_TIMEOUT;
    if (now - e->published_ns < gap)
        return;
    e->published_ns = now;
    e->published_peer = activity->waits_for;
    struct record r = make_record(RECORD_HEARTBEAT);
    r.activity = *activity;
    for (uint32_t i = 0; i < e->n_ranks; i++)
        if (i != e->rank && has_room(e->peers[i].at.control))
            (void)send_record(&e->peers[i], &r);
}

static void socket_inspect(void *self, uint32_t rank, struct weft_activity *activity,
                           int64_t *age_ns)
{
    struct endpoint *e = (struct endpoint *)self;
    poll_sometimes(e);
    *activity = e->peers[rank].activity;
    *age_ns = socket_now() - e->peers[rank].heard_ns;
}

/* -- errors -------------------------------------------------------------------------------- */

static bool all_left(struct endpoint *e, int64_t now)
{
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        const struct peer *p = &e->peers[r];
        bool silent = now - p->heard_ns > e->timeout_ns / 2;
        if (r != e->rank && !p->left && !p->bye && !silent && p->at.control >= 0)
            return false;
    }
    return true;
}

/* Leaves the messages to the caller, and waits until all ranks have received the error.  An
 * error of a lower rank may arrive until then: a rank sends its own error before "left". */
static void give_up(struct endpoint *e)
{
    if (e->gave_up)
        return;
    e->gave_up = true;
    struct record r = make_record(RECORD_LEFT);
    send_to_all(e, &r);
    for (int64_t begin = socket_now(), now = begin; now - begin < LEAVE_NS && !all_left(e, now);
         now = socket_now())
        socket_poll(e, 1);
}

void socket_abort(void *self, const struct weft_error *err)
{
    struct endpoint *e = (struct endpoint *)self;
    for (uint32_t r = 0; r < e->n_ranks; r++)
        listen_to(e, r);
    if (!e->failed) {
        struct record r = make_record(RECORD_ERROR);
        e->failed = true;
        e->failed_rank = e->rank;
        e->error = *err;
        r.status = (int32_t)err->status;
        memcpy(r.msg, err->msg, sizeof r.msg);
        send_to_all(e, &r);
    }
    give_up(e);
}

static bool socket_aborted(void *self, struct weft_error *err)
{
    struct endpoint *e = (struct endpoint *)self;
    if (!e->failed)
        return false;
    give_up(e);
    *err = e->error;
    return true;
}

/* -- opening and closing ------------------------------------------------------------------- */

static bool all_said_bye(const struct endpoint *e)
{
    for (uint32_t r = 0; r < e->n_ranks; r++)
        if (r != e->rank && !e->peers[r].bye && e->peers[r].at.control >= 0)
            return false;
    return true;
}

static bool has_output(const struct endpoint *e)
{
    for (uint32_t r = 0; r < e->n_ranks; r++)
        if (e->peers[r].first_output != NULL && e->peers[r].at.data >= 0)
            return true;
    return false;
}

static void say_bye(struct endpoint *e)
{
    struct record r = make_record(RECORD_BYE);
    int64_t begin = socket_now();
    while (has_output(e) && socket_now() - begin < LEAVE_NS)
        socket_poll(e, 1);
    send_to_all(e, &r);
    while (!all_said_bye(e) && socket_now() - begin < LEAVE_NS)
        socket_poll(e, 1);
}

static void free_endpoint(struct endpoint *e)
{
    socket_free_data(e);
    free(e->peers);
    free(e->polled);
    free(e);
}

static void socket_close(void *self)
{
    struct endpoint *e = (struct endpoint *)self;
    if (!e->gave_up)
        say_bye(e);
    for (uint32_t r = 0; r < e->n_ranks; r++) {
        if (e->peers[r].at.data >= 0)
            close(e->peers[r].at.data);
        if (e->peers[r].at.control >= 0)
            close(e->peers[r].at.control);
    }
    free_endpoint(e);
}

static void socket_set_timeout(void *self, int64_t ns)
{
    ((struct endpoint *)self)->timeout_ns = ns;
}

static struct weft_transport make_table(void)
{
    const struct weft_transport_abi abi = WEFT_TRANSPORT_ABI;
    struct weft_transport t;
    memset(&t, 0, sizeof t);
    t.abi = abi;
    t.name = "socket";
    t.send = socket_send;
    t.post = socket_post;
    t.test = socket_test;
    t.release = socket_release;
    t.rest = socket_rest;
    t.publish = socket_publish;
    t.inspect = socket_inspect;
    t.abort = socket_abort;
    t.aborted = socket_aborted;
    t.close = socket_close;
    t.set_timeout = socket_set_timeout;
    return t;
}

enum weft_status socket_open(const struct socket_pair *pairs, uint32_t rank, uint32_t n_ranks,
                             uint64_t run, struct weft_comm **out, struct weft_error *err)
{
    const struct weft_transport table = make_table();
    struct endpoint *e = (struct endpoint *)calloc(1, sizeof *e);
    if (e == NULL)
        return socket_fail(err, WEFT_NOMEM, "no memory for rank %u", rank);

    e->rank = rank;
    e->n_ranks = n_ranks;
    e->published_peer = WEFT_NO_PEER;
    e->peers = (struct peer *)calloc(n_ranks, sizeof *e->peers);
    e->polled = (struct pollfd *)calloc(2 * (size_t)n_ranks, sizeof *e->polled);

    enum weft_status st = WEFT_OK;
    if (e->peers == NULL || e->polled == NULL)
        st = socket_fail(err, WEFT_NOMEM, "no memory for %u ranks", n_ranks);

    for (uint32_t r = 0; st == WEFT_OK && r < n_ranks; r++) {
        e->peers[r].at = pairs[r];
        e->peers[r].heard_ns = socket_now();
        e->peers[r].activity.waits_for = WEFT_NO_PEER;
    }

    if (st == WEFT_OK)
        st = weft_comm_open(&table, e, rank, n_ranks, run, out, err);
    if (st != WEFT_OK)
        free_endpoint(e);
    return st;
}
