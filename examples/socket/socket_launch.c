/* Forks the ranks of the socket transport, connects each of them with each other, and
 * collects their results. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket_priv.h"

/* After a failure, the other ranks end by themselves.  A rank that is stopped cannot, and is
 * killed after this time. */
#define PATIENCE_NS (INT64_C(30) * 1000000000)

struct result {
    enum weft_status status;
    struct weft_error err; /* err.file is a string literal of the same program */
};

struct child {
    pid_t pid;
    int pipe;      /* the child writes its result there; -1: closed */
    size_t n_read; /* bytes of `got` so far */
    struct result got;
};

struct launch {
    uint32_t n;
    uint64_t run;
    int buffer_bytes;
    struct socket_pair *pairs; /* owned: (n, n); row r has the sockets of rank r */
    struct child *children;    /* owned: (n) */
    uint32_t n_started;
};

/* -- sockets ------------------------------------------------------------------------------- */

static void close_pair(struct socket_pair *p)
{
    if (p->data >= 0)
        close(p->data);
    if (p->control >= 0)
        close(p->control);
    p->data = p->control = -1;
}

static void close_all(struct launch *l)
{
    for (size_t i = 0; i < (size_t)l->n * l->n; i++)
        close_pair(&l->pairs[i]);
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Connects two ranks with two pairs of sockets. */
static int connect_ranks(const struct launch *l, struct socket_pair *a, struct socket_pair *b)
{
    int data[2], control[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, data) != 0)
        return -1;
    a->data = data[0];
    b->data = data[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control) != 0)
        return -1;
    a->control = control[0];
    b->control = control[1];
    for (int i = 0; i < 2; i++) {
        if (set_nonblocking(data[i]) != 0 || set_nonblocking(control[i]) != 0)
            return -1;
        if (l->buffer_bytes > 0 && setsockopt(data[i], SOL_SOCKET, SO_SNDBUF, &l->buffer_bytes,
                                              sizeof l->buffer_bytes) != 0)
            return -1;
    }
    return 0;
}

static enum weft_status connect_all(struct launch *l, struct weft_error *err)
{
    for (size_t i = 0; i < (size_t)l->n * l->n; i++)
        l->pairs[i].data = l->pairs[i].control = -1;
    for (uint32_t a = 0; a < l->n; a++)
        for (uint32_t b = 0; b < a; b++)
            if (connect_ranks(l, &l->pairs[a * l->n + b], &l->pairs[b * l->n + a]) != 0)
                return socket_fail(err, WEFT_IO, "cannot connect %u ranks with sockets: %s",
                                   l->n, strerror(errno));
    return WEFT_OK;
}

/* -- a rank -------------------------------------------------------------------------------- */

static void write_all(int fd, const void *data, size_t bytes)
{
    const char *at = (const char *)data;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* the parent has gone */
        at += n;
        bytes -= (size_t)n;
    }
}

/* Runs a rank in its own process, and does not return.  The process keeps only its own sockets,
 * so that its peers notice when it ends. */
static void run_child(struct launch *l, uint32_t rank, int pipe, weft_rank_fn *fn, void *arg)
{
    struct socket_pair *own = &l->pairs[rank * l->n];
    struct weft_comm *comm = NULL;
    struct result r;
    memset(&r, 0, sizeof r);
    signal(SIGPIPE, SIG_IGN); /* for the pipe to the parent */
    for (uint32_t i = 0; i < l->n * l->n; i++)
        if (i / l->n != rank)
            close_pair(&l->pairs[i]);
    for (uint32_t i = 0; i < rank; i++)
        close(l->children[i].pipe);
    r.status = socket_open(own, rank, l->n, l->run, &comm, &r.err);
    if (r.status == WEFT_OK)
        r.status = weft_comm_run(comm, fn, arg, &r.err);
    write_all(pipe, &r, sizeof r);
    close(pipe);
    free(l->pairs);
    free(l->children);
    exit(0);
}

static enum weft_status start_children(struct launch *l, weft_rank_fn *fn, void *arg,
                                       struct weft_error *err)
{
    fflush(NULL); /* else every process would print what is buffered */

    for (uint32_t r = 0; r < l->n; r++) {
        int ends[2];
        if (pipe(ends) != 0)
            return socket_fail(err, WEFT_IO, "cannot start rank %u: %s", r, strerror(errno));

        pid_t pid = fork();
        if (pid == 0) {
            close(ends[0]);
            run_child(l, r, ends[1], fn, arg);
        }

        close(ends[1]);
        if (pid < 0) {
            close(ends[0]);
            return socket_fail(err, WEFT_NOMEM, "cannot start rank %u: %s", r, strerror(errno));
        }

        l->children[r].pid = pid;
        l->children[r].pipe = ends[0];
        l->n_started++;
    }
    return WEFT_OK;
}

/* -- results ------------------------------------------------------------------------------- */

/* Waits for the end of a process.  Its result counts only if it ended normally. */
static void finish_child(struct child *c, uint32_t rank)
{
    int status = 0;
    pid_t pid;
    close(c->pipe);
    c->pipe = -1;
    do
        pid = waitpid(c->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    if (pid == c->pid && WIFSIGNALED(status))
        c->got.status = socket_fail(&c->got.err, WEFT_PEER, "rank %u was ended by signal %d",
                                    rank, WTERMSIG(status));
    else if (pid == c->pid && WEXITSTATUS(status) != 0)
        c->got.status = socket_fail(&c->got.err, WEFT_PEER, "rank %u exited with code %d", rank,
                                    WEXITSTATUS(status));
    else if (c->n_read != sizeof c->got)
        c->got.status =
            socket_fail(&c->got.err, WEFT_PEER, "rank %u ended without a result", rank);
}

static void read_result(struct child *c, uint32_t rank)
{
    char *at = (char *)&c->got + c->n_read;
    char unused;
    size_t room = sizeof c->got - c->n_read;
    ssize_t n = read(c->pipe, room > 0 ? at : &unused, room > 0 ? room : 1);
    if (n > 0 && room > 0)
        c->n_read += (size_t)n;
    else if (n == 0 || (n < 0 && errno != EINTR))
        finish_child(c, rank);
}

/* Waits until all processes have ended. */
static void collect(struct launch *l, struct pollfd *polled)
{
    int64_t failed_ns = l->n_started < l->n ? socket_now() : 0;
    for (;;) {
        uint32_t n_open = 0;
        for (uint32_t r = 0; r < l->n_started; r++) {
            polled[r].fd = l->children[r].pipe;
            polled[r].events = POLLIN;
            polled[r].revents = 0;
            n_open += polled[r].fd >= 0;
            if (polled[r].fd < 0 && l->children[r].got.status != WEFT_OK && failed_ns == 0)
                failed_ns = socket_now();
        }

        if (n_open == 0)
            return;

        bool late = failed_ns != 0 && socket_now() - failed_ns > PATIENCE_NS;
        for (uint32_t r = 0; late && r < l->n_started; r++)
            if (polled[r].fd >= 0)
                kill(l->children[r].pid, SIGKILL);

        int n = poll(polled, l->n_started, 100);
        for (uint32_t r = 0; n > 0 && r < l->n_started; r++)
            if (polled[r].revents != 0)
                read_result(&l->children[r], r);
    }
}

/* Returns the error of the first rank that reported one itself, or else of one
 * that just ended. */
static enum weft_status first_result(const struct launch *l, struct weft_error *err)
{
    const struct child *worst = NULL;
    for (uint32_t r = 0; r < l->n_started; r++) {
        const struct child *c = &l->children[r];
        bool reported = c->n_read == sizeof c->got;
        if (c->got.status != WEFT_OK &&
            (worst == NULL || (reported && worst->n_read != sizeof c->got)))
            worst = c;
    }
    if (worst == NULL)
        return WEFT_OK;
    if (err != NULL)
        *err = worst->got.err;
    return worst->got.status;
}

enum weft_status socket_run(uint32_t n, int buffer_bytes, weft_rank_fn *fn, void *arg,
                            struct weft_error *err)
{
    struct launch l;
    enum weft_status st = WEFT_OK;
    memset(&l, 0, sizeof l);

    if (n == 0)
        return socket_fail(err, WEFT_USAGE, "the number of ranks is 0; expected at least 1");

    l.n = n;
    l.buffer_bytes = buffer_bytes;
    l.run = (uint64_t)socket_now() ^ (uint64_t)getpid() << 32;
    l.pairs = (struct socket_pair *)calloc((size_t)n * n, sizeof *l.pairs);
    l.children = (struct child *)calloc(n, sizeof *l.children);
    struct pollfd *polled = (struct pollfd *)calloc(n, sizeof *polled);

    if (l.pairs == NULL || l.children == NULL || polled == NULL)
        st = socket_fail(err, WEFT_NOMEM, "no memory for %u ranks", n);
    if (st == WEFT_OK)
        st = connect_all(&l, err);
    if (st == WEFT_OK)
        st = start_children(&l, fn, arg, err);

    if (l.pairs != NULL)
        close_all(&l); /* if a rank is missing, the others notice that its sockets are closed */
    if (polled != NULL && l.children != NULL)
        collect(&l, polled);

    if (st == WEFT_OK)
        st = first_result(&l, err);

    free(polled);
    free(l.pairs);
    free(l.children);
    return st;
}
