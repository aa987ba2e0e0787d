/* Serves the page over HTTP with libmicrohttpd on a separate thread, so that the server has a
 * low priority and stops promptly, and every connection is closed at its time limit. */
#define _DEFAULT_SOURCE /* setpriority */

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "training/report/page_priv.h"
#include "training/report/server_priv.h"

enum {
    MAX_CONNECTIONS = 32,
    CONNECTION_BYTES = 12 << 10, /* memory for the headers of a request and of its response */
    IDLE_SECONDS = 2,            /* a connection is closed after this time without any byte */
    CACHE_MS = 500,              /* an answer is reused until this age */
};
/* Maximum duration of a connection, including the answer. */
#define MAX_CONNECTION_NS 6000000000

/* The body of a response, kept until the runs are read again. */
struct answer {
    char *at; /* owned */
    size_t len;
};

struct connection {
    int fd; /* borrowed; -1: this entry is free */
    int64_t begin_ns;
};

struct wf_report_server {
    struct MHD_Daemon *daemons[2]; /* owned: 127.0.0.1, and ::1 if available */
    uint16_t port;
    struct wf_run *runs; /* owned */
    size_t n_runs;
    struct answer answers[2]; /* indexed by enum wf_route */
    char *policy;             /* owned: Content-Security-Policy */
    int64_t built_ns;         /* time when the runs were last read; 0: never */
    struct connection connections[2 * MAX_CONNECTIONS];
    pthread_t thread;
    bool running;
    int wake[2]; /* a pipe; writing a byte to it stops the thread */
};

/* -- answers ------------------------------------------------------------------------------- */

static bool make_answer(struct wf_report_server *s, enum wf_route route)
{
    struct wf_text answer = {0};
    FILE *out = wf_text_open(&answer);
    if (out == NULL)
        return false;
    enum weft_status st = WEFT_OK;
    if (route == WF_ROUTE_PAGE)
        st = wf_page_write(out, s->runs, s->n_runs, true, NULL);
    else
        wf_page_write_data(out, s->runs, s->n_runs);
    fclose(out);
    if (answer.failed || st != WEFT_OK) {
        wf_text_release(&answer);
        return false;
    }
    free(s->answers[route].at);
    s->answers[route] = (struct answer){answer.at, answer.len};
    return true;
}

/* Reads the runs again if the answers are too old.  A run without files is shown as empty. */
static void refresh(struct wf_report_server *s)
{
    if (s->built_ns != 0 && wf_clock_ns() - s->built_ns < CACHE_MS * 1000000LL)
        return;
    for (size_t i = 0; i < s->n_runs; i++)
        wf_run_update(&s->runs[i], NULL);
    for (int route = 0; route < 2; route++) {
        free(s->answers[route].at);
        s->answers[route] = (struct answer){0};
    }
    s->built_ns = wf_clock_ns();
}

static const struct answer *answer_for(struct wf_report_server *s, enum wf_route route)
{
    refresh(s);
    if (s->answers[route].at == NULL && !make_answer(s, route))
        return NULL;
    return &s->answers[route];
}

static void add_headers(const struct wf_report_server *s, struct MHD_Response *r,
                        const char *type)
{
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy", s->policy);
    MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "Connection", "close");
    if (type != NULL)
        MHD_add_response_header(r, "Content-Type", type);
}

static enum MHD_Result reply(struct wf_report_server *s, struct MHD_Connection *c,
                             unsigned status, enum wf_route route)
{
    static const char *const types[] = {"text/html; charset=utf-8", "application/json"};
    const struct answer *a = status == 200 ? answer_for(s, route) : NULL;
    if (status == 200 && a == NULL)
        status = 503;
    struct MHD_Response *r =
        a == NULL ? MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT)
                  : MHD_create_response_from_buffer(a->len, a->at, MHD_RESPMEM_MUST_COPY);
    if (r == NULL)
        return MHD_NO;
    add_headers(s, r, a == NULL ? NULL : types[route]);
    if (status == 405)
        MHD_add_response_header(r, "Allow", "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result count_host(void *count, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    if (strcasecmp(key, "Host") == 0)
        ++*(size_t *)count;
    (void)kind;
    (void)value;
    return MHD_YES;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result on_request(void *server, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    const char *length = header(c, "Content-Length");
    struct wf_request r = {.method = method,
                           .path = path,
                           .host = header(c, "Host"),
                           .site = header(c, "Sec-Fetch-Site"),
                           .body = (length != NULL && strcmp(length, "0") != 0) ||
                                   header(c, "Transfer-Encoding") != NULL};
    enum wf_route route = WF_ROUTE_PAGE;
    MHD_get_connection_values(c, MHD_HEADER_KIND, count_host, &r.n_hosts);
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)state;
    struct wf_report_server *s = server;
    unsigned status = wf_request_status(&r, s->port, &route);
    return reply(s, c, status, route);
}

/* Keeps escapes in the path undecoded, so that "/%2e" is not a route. */
static size_t keep_escapes(void *server, struct MHD_Connection *c, char *text)
{
    (void)server;
    (void)c;
    return strlen(text);
}

static void discard_log(void *server, const char *format, va_list args)
{
    (void)server;
    (void)format;
    (void)args;
}

/* -- connections --------------------------------------------------------------------------- */

static void on_connection(void *server, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    struct wf_report_server *s = server;
    struct connection *at = *own;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (at != NULL)
            at->fd = -1;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (size_t i = 0; info != NULL && i < WEFT_LEN(s->connections); i++)
        if (s->connections[i].fd < 0) {
            s->connections[i] =
                (struct connection){.fd = info->connect_fd, .begin_ns = wf_clock_ns()};
            *own = &s->connections[i];
            return;
        }
}

/* Closes connections that exceed their time limit.  libmicrohttpd closes only silent
 * connections: a client that sends one byte per second would keep its connection open. */
static void close_expired(struct wf_report_server *s)
{
    int64_t now = wf_clock_ns();
    for (size_t i = 0; i < WEFT_LEN(s->connections); i++)
        if (s->connections[i].fd >= 0 && now - s->connections[i].begin_ns > MAX_CONNECTION_NS)
            shutdown(s->connections[i].fd, SHUT_RDWR);
}

static int poll_fd(struct MHD_Daemon *d)
{
    const union MHD_DaemonInfo *info =
        d == NULL ? NULL : MHD_get_daemon_info(d, MHD_DAEMON_INFO_EPOLL_FD);
    return info == NULL ? -1 : info->epoll_fd;
}

static void *serve(void *server)
{
    struct wf_report_server *s = server;
    struct pollfd fds[3] = {{.fd = s->wake[0], .events = POLLIN}};
    /* On Linux, this call changes only the priority of this thread. */
    setpriority(PRIO_PROCESS, 0, 10);

    for (int i = 0; i < 2; i++)
        fds[1 + i] = (struct pollfd){.fd = poll_fd(s->daemons[i]), .events = POLLIN};

    while ((fds[0].revents & POLLIN) == 0) {
        int wait = 250; /* ms; expired connections are closed after each wait */
        for (int i = 0; i < 2; i++) {
            unsigned long long ms;
            if (s->daemons[i] != NULL && MHD_get_timeout(s->daemons[i], &ms) == MHD_YES &&
                ms < (unsigned)wait)
                wait = (int)ms;
        }

        if (poll(fds, WEFT_LEN(fds), wait) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < 2; i++)
            if (s->daemons[i] != NULL)
                MHD_run(s->daemons[i]);
        close_expired(s);
    }
    return NULL;
}

/* -- starting and stopping ----------------------------------------------------------------- */

static struct MHD_Daemon *start_daemon(struct wf_report_server *s, const void *address,
                                       unsigned flags)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | flags, 0, NULL, NULL, on_request, s,
        MHD_OPTION_EXTERNAL_LOGGER, discard_log, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        address == NULL ? MHD_OPTION_END : MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_END);
}

enum weft_status wf_report_server_new(const char *const *dirs, size_t n, uint16_t port,
                                      struct wf_report_server **out, struct weft_error *err)
{
    struct wf_report_server *s = calloc(1, sizeof *s);
    struct wf_text text = {0};

    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a server");

    s->wake[0] = s->wake[1] = -1;
    s->port = port;
    for (size_t i = 0; i < WEFT_LEN(s->connections); i++)
        s->connections[i].fd = -1;

    FILE *policy = wf_text_open(&text);
    if (policy != NULL) {
        wf_page_policy(policy, true, true);
        fclose(policy);
    }
    s->policy = text.at;
    s->runs = calloc(n, sizeof *s->runs);
    enum weft_status st = WEFT_OK;
    if (text.failed || s->runs == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a server");

    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        st = wf_run_init(&s->runs[i], dirs[i], err);
        s->n_runs += st == WEFT_OK;
    }
    if (st == WEFT_OK && pipe(s->wake) != 0)
        st = WEFT_FAIL(err, WEFT_IO, "cannot create a pipe: %s", strerror(errno));

    if (st != WEFT_OK) {
        wf_report_server_stop(s);
        return st;
    }

    *out = s;
    return WEFT_OK;
}

/* Starts the thread, which blocks all signals, so that other threads of the process receive
 * them. */
static enum weft_status start_thread(struct wf_report_server *s, struct weft_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->running = failed == 0;
    return failed == 0
               ? WEFT_OK
               : WEFT_FAIL(err, WEFT_NOMEM, "cannot start a thread: %s", strerror(failed));
}

static enum weft_status listen_at(struct wf_report_server *s, uint16_t port,
                                  struct weft_error *err)
{
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s->daemons[0] = start_daemon(s, &four, 0);
    if (s->daemons[0] == NULL)
        return WEFT_FAIL(err, WEFT_IO,
                         "cannot serve at 127.0.0.1:%u: the port is in use or not permitted; "
                         "use another port",
                         (unsigned)port);
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(s->daemons[0], MHD_DAEMON_INFO_BIND_PORT);
    s->port = info == NULL ? port : info->port;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons(s->port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    /* This call may fail if the machine has no IPv6. */
    s->daemons[1] = start_daemon(s, &six, MHD_USE_IPv6);
    return WEFT_OK;
}

enum weft_status wf_report_server_start(const char *const *dirs, size_t n, uint16_t port,
                                        struct wf_report_server **out, struct weft_error *err)
{
    struct wf_report_server *s = NULL;
    WEFT_TRY(wf_report_server_new(dirs, n, port, &s, err));
    enum weft_status st = listen_at(s, port, err);
    if (st == WEFT_OK)
        st = start_thread(s, err);
    if (st != WEFT_OK) {
        wf_report_server_stop(s);
        return st;
    }
    *out = s;
    return WEFT_OK;
}

uint16_t wf_report_server_port(const struct wf_report_server *s)
{
    return s->port;
}

void wf_report_server_stop(struct wf_report_server *s)
{
    if (s == NULL)
        return;
    if (s->running && write(s->wake[1], "", 1) == 1)
        pthread_join(s->thread, NULL);
    for (int i = 0; i < 2; i++)
        if (s->daemons[i] != NULL)
            MHD_stop_daemon(s->daemons[i]);
    for (size_t i = 0; i < s->n_runs; i++)
        wf_run_release(&s->runs[i]);
    for (int i = 0; i < 2; i++) {
        free(s->answers[i].at);
        if (s->wake[i] >= 0)
            close(s->wake[i]);
    }
    free(s->runs);
    free(s->policy);
    free(s);
}

/* -- for tests ----------------------------------------------------------------------------- */

enum weft_status wf_report_server_connect(struct wf_report_server *s, int *fd,
                                          struct weft_error *err)
{
    int fds[2];
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (s->daemons[0] == NULL)
        s->daemons[0] = start_daemon(s, NULL, MHD_USE_NO_LISTEN_SOCKET);
    if (s->daemons[0] == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return WEFT_FAIL(err, WEFT_IO, "cannot create a connection");
    *fd = fds[0];
    if (MHD_add_connection(s->daemons[0], fds[1], (const struct sockaddr *)&address,
                           sizeof address) != MHD_YES) {
        close(fds[0]);
        return WEFT_FAIL(err, WEFT_IO, "the connection is refused");
    }
    return WEFT_OK;
}

void wf_report_server_run(struct wf_report_server *s)
{
    MHD_run(s->daemons[0]);
}
