/* Checks the responses of the report server to requests over real sockets. */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "folder.h"
#include "training/report/server_priv.h"

static struct folder run_dir;
static struct wf_report_server *server;
static unsigned port;

static int start(void **state)
{
    run_dir = folder_new();
    FILE *out = fopen(folder_in(&run_dir, "metrics.jsonl"), "w");
    for (int i = 1; i <= 20; i++)
        fprintf(out, "{\"step\":%d,\"loss\":%g,\"lr\":0.1,\"ms\":5,\"tok_s\":9}\n", i, 9.0 / i);
    fclose(out);
    const char *dirs[] = {run_dir.path};
    struct weft_error err = {.msg = ""};
    if (wf_report_server_start(dirs, 1, 0, &server, &err) != WEFT_OK)
        return -1;
    port = wf_report_server_port(server);
    (void)state;
    return 0;
}

static int stop(void **state)
{
    wf_report_server_stop(server);
    folder_remove(&run_dir);
    (void)state;
    return 0;
}

static int connect_to_server(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Reads until the server closes the connection. */
static char *read_response(int fd, size_t *len)
{
    size_t capacity = 1 << 16, n = 0;
    char *text = malloc(capacity);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_true(poll(&p, 1, 20000) == 1);
        ssize_t got = recv(fd, text + n, capacity - n - 1, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        if (capacity - n < 4096)
            text = realloc(text, capacity *= 2);
    }
    text[n] = '\0';
    if (len != NULL)
        *len = n;
    return text;
}

static int send_bytes(const char *bytes, size_t len)
{
    int fd = connect_to_server();
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, bytes + at, len - at, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    shutdown(fd, SHUT_WR);
    return fd;
}

/* Sends bytes and returns the response, which is "" if there is none. */
static char *request_bytes(const char *bytes, size_t len)
{
    int fd = send_bytes(bytes, len);
    char *text = read_response(fd, NULL);
    close(fd);
    return text;
}

/* Sends a head, in which %p is replaced by the port.  Returns the response. */
static char *request(const char *head)
{
    char bytes[4096];
    size_t n = 0;
    for (const char *at = head; *at != '\0'; at++)
        if (at[0] == '%' && at[1] == 'p') {
            n += (size_t)snprintf(bytes + n, sizeof bytes - n, "%u", port);
            at++;
        } else {
            bytes[n++] = *at;
        }
    return request_bytes(bytes, n);
}

static unsigned status_of(const char *response)
{
    unsigned status = 0;
    if (sscanf(response, "HTTP/1.%*1[01] %3u ", &status) != 1)
        return 0;
    return status;
}

static const char ok_tail[] = " HTTP/1.1\r\nHost: 127.0.0.1:%p\r\n\r\n";

static char *get(const char *line)
{
    char head[512];
    snprintf(head, sizeof head, "%s%s", line, ok_tail);
    return request(head);
}

static void check_responses(void **state)
{
    char *page = get("GET /"), *data = get("GET /data.json"), *head = get("HEAD /");

    assert_int_equal(status_of(page), 200);
    assert_non_null(strstr(page, "Content-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(page, "X-Content-Type-Options: nosniff\r\n"));
    assert_non_null(strstr(page, "Connection: close\r\n"));
    assert_non_null(strstr(page, "Cache-Control: no-store\r\n"));
    assert_non_null(strstr(page, "Content-Security-Policy: default-src 'none'; script-src "
                                 "'sha256-"));
    assert_non_null(strstr(page, "frame-ancestors 'none'\r\n"));
    assert_null(strstr(page, "Access-Control"));
    assert_non_null(strstr(page, "<!DOCTYPE html>"));
    assert_null(strstr(page, "/tmp/")); /* the path is not revealed */

    assert_int_equal(status_of(data), 200);
    assert_non_null(strstr(data, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(data, "\"step\":20,\"loss\":0.45"));

    assert_int_equal(status_of(head), 200);
    assert_string_equal(strstr(head, "\r\n\r\n"), "\r\n\r\n"); /* no body */

    free(page);
    free(data);
    free(head);
    (void)state;
}

/* On every route only GET and HEAD are allowed. */
static void check_methods(void **state)
{
    static const char *const methods[] = {"GET",   "HEAD", "POST",    "PUT", "DELETE",  "PATCH",
                                          "TRACE", "KILL", "OPTIONS", "get", "PROPFIND"};
    static const char *const paths[] = {"/", "/data.json", "/x", "/../../etc/passwd",
                                        "/metrics.jsonl"};
    for (size_t m = 0; m < WEFT_LEN(methods); m++)
        for (size_t p = 0; p < WEFT_LEN(paths); p++) {
            char line[100];
            snprintf(line, sizeof line, "%s %s", methods[m], paths[p]);
            char *response = get(line);
            unsigned want = m >= 2 ? 405 : p < 2 ? 200 : 404;
            assert_int_equal(status_of(response), want);
            if (want != 200)
                assert_string_equal(strstr(response, "\r\n\r\n"), "\r\n\r\n");
            assert_int_equal(strstr(response, "Allow: GET, HEAD\r\n") != NULL, want == 405);
            free(response);
        }
    (void)state;
}

static const struct {
    const char *head;
    unsigned want;
} heads[] = {
    {"GET / HTTP/1.1\r\nHost: localhost:%p\r\n\r\n", 200},
    {"GET / HTTP/1.1\r\nHost: [::1]:%p\r\n\r\n", 200},
    {"GET /?a=b HTTP/1.1\r\nHost: localhost:%p\r\n\r\n", 200},
    {"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
    {"GET / HTTP/1.1\r\nHost: evil.test:%p\r\n\r\n", 421},
    {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 421},
    {"GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", 421},
    {"GET / HTTP/1.1\r\nHost: localhost:%p\r\nHost: evil.test\r\n\r\n", 421},
    {"GET / HTTP/1.1\r\nHost: evil.test\r\nHost: localhost:%p\r\n\r\n", 421},
    {"GET / HTTP/1.0\r\n\r\n", 421},
    {"GET / HTTP/1.1\r\nHost: localhost:%p\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: localhost:%p\r\nSec-Fetch-Site: same-origin\r\n\r\n", 200},
    {"GET / HTTP/1.1\r\nHost: localhost:%p\r\nContent-Length: 5\r\n\r\nhello", 413},
    {"GET / HTTP/1.1\r\nHost: localhost:%p\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     413},
    {"GET /%2e%2e/ HTTP/1.1\r\nHost: localhost:%p\r\n\r\n", 404},
    {"GET /%00 HTTP/1.1\r\nHost: localhost:%p\r\n\r\n", 404},
};

static void check_heads(void **state)
{
    for (size_t i = 0; i < WEFT_LEN(heads); i++) {
        char *response = request(heads[i].head);
        assert_int_equal(status_of(response), heads[i].want);
        free(response);
    }
    (void)state;
}

static uint32_t next(uint32_t *s)
{
    return (*s = *s * 1664525u + 1013904223u) >> 8;
}

/* Sends malformed heads, hand-written and mutated.  Each connection is closed, without the page
 * unless the host is still correct; the server still answers afterwards. */
static void check_malformed(void **state)
{
    static const char *const odd[] = {
        "",
        "\r\n",
        "\n",
        "GET",
        "GET /",
        "GET / ",
        "GET / HTTP/9.9\r\n\r\n",
        "\r\n\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        " GET / HTTP/1.1\r\n\r\n",
        "GET  /  HTTP/1.1\r\n\r\n",
        "GET /\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nzz",
    };

    enum { ALL = 200, AT_ONCE = 20 }; /* connections with truncated requests time out */
    uint32_t seed = 3;
    char good[200], bad[200];
    int fds[AT_ONCE];
    int len =
        snprintf(good, sizeof good,
                 "GET /data.json HTTP/1.1\r\nHost: evil.test:%u\r\nAccept: */*\r\n\r\n", port);

    for (size_t i = 0; i < ALL; i++) {
        size_t n = (size_t)len;
        if (i < WEFT_LEN(odd)) {
            n = strlen(odd[i]);
            memcpy(bad, odd[i], n);
        } else {
            memcpy(bad, good, n);
            for (unsigned k = next(&seed) % 6 + 1; k > 0; k--)
                bad[next(&seed) % (n - 4)] = (char)next(&seed);
            if (i >= ALL - AT_ONCE)
                n = next(&seed) % n;
        }

        fds[i % AT_ONCE] = send_bytes(bad, n);
        for (size_t k = 0; (i + 1) % AT_ONCE == 0 && k < AT_ONCE; k++) {
            char *response = read_response(fds[k], NULL);
            assert_true(status_of(response) != 200);
            assert_null(strstr(response, "weft report"));
            free(response);
            close(fds[k]);
        }
    }

    char *response = get("GET /");
    assert_int_equal(status_of(response), 200);
    free(response);
    (void)state;
}

/* Oversized heads and paths are rejected. */
static void check_long(void **state)
{
    size_t n = 1 << 20;
    char *bytes = malloc(n);
    for (int in_path = 0; in_path < 2; in_path++) {
        memset(bytes, 'a', n);
        memcpy(bytes, in_path ? "GET /" : "GET / HTTP/1.1\r\nX: ", in_path ? 5 : 19);
        char *response = request_bytes(bytes, n);
        unsigned status = status_of(response);
        assert_true(status == 0 || status == 400 || status == 413 || status == 414 ||
                    status == 431);
        free(response);
    }
    free(bytes);
    (void)state;
}

/* Of two requests on one connection only the first is answered. */
static void check_pipelined(void **state)
{
    char *response = request("GET /data.json HTTP/1.1\r\nHost: localhost:%p\r\n\r\n"
                             "GET /data.json HTTP/1.1\r\nHost: localhost:%p\r\n\r\n");
    const char *first = strstr(response, "HTTP/1.1 200");
    assert_non_null(first);
    assert_null(strstr(first + 1, "HTTP/1.1"));
    free(response);
    (void)state;
}

/* Opens more slow connections than allowed, which send a byte now and then.  The server closes
 * them all and then answers. */
static void check_slow(void **state)
{
    enum { SLOW = 40 };
    int fds[SLOW];
    for (int i = 0; i < SLOW; i++)
        fds[i] = connect_to_server();
    int64_t begin = wf_clock_ns();
    for (int ms = 0; ms < 8000; ms += 400) {
        for (int i = 0; i < SLOW; i++)
            (void)!send(fds[i], "G", 1, MSG_NOSIGNAL);
        usleep(400000);
    }
    assert_true(wf_clock_ns() - begin > 6000000000);
    char *response = get("GET /data.json");
    assert_int_equal(status_of(response), 200);
    free(response);
    for (int i = 0; i < SLOW; i++)
        close(fds[i]);
    (void)state;
}

/* A port that is in use is an error, and nothing leaks. */
static void check_port_in_use(void **state)
{
    const char *dirs[] = {run_dir.path};
    struct wf_report_server *second = NULL;
    struct weft_error err = {.msg = ""};
    assert_int_equal(wf_report_server_start(dirs, 1, (uint16_t)port, &second, &err), WEFT_IO);
    assert_null(second);
    assert_non_null(strstr(err.msg, "in use"));
    (void)state;
}

/* The server serves steps that are added later. */
static void check_updates(void **state)
{
    FILE *out = fopen(folder_in(&run_dir, "metrics.jsonl"), "a");
    fputs("{\"step\":21,\"loss\":0.125}\n{\"step\":22,\"lo", out);
    fclose(out);
    bool found = false;
    for (int tries = 0; !found && tries < 300; tries++) {
        usleep(100000);
        char *data = get("GET /data.json");
        found = strstr(data, "\"step\":21,\"loss\":0.125") != NULL;
        free(data);
    }
    assert_true(found);
    (void)state;
}

/* The server listens on loopback addresses only. */
static void check_bound(void **state)
{
    char line[300];
    FILE *in = fopen("/proc/net/tcp", "r");
    unsigned address, at, listening = 0;
    if (in == NULL)
        skip();
    while (fgets(line, sizeof line, in) != NULL)
        if (sscanf(line, " %*d: %x:%x %*x:%*x 0A", &address, &at) == 2 && at == port &&
            strstr(line, " 0A ") != NULL) {
            assert_int_equal(address, htonl(INADDR_LOOPBACK));
            listening++;
        }
    fclose(in);
    assert_int_equal(listening, 1);
    (void)state;
}

/* A directory that does not exist yet is served as an empty run. */
static void check_empty(void **state)
{
    const char *dirs[] = {"/nowhere/run"};
    struct wf_report_server *other = NULL;
    unsigned before = port;
    assert_int_equal(wf_report_server_start(dirs, 1, 0, &other, NULL), WEFT_OK);
    port = wf_report_server_port(other);
    char *page = get("GET /");
    assert_int_equal(status_of(page), 200);
    assert_non_null(strstr(page, "no steps yet"));
    free(page);
    wf_report_server_stop(other);
    wf_report_server_stop(NULL);
    port = before;
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_responses), cmocka_unit_test(check_methods),
        cmocka_unit_test(check_heads),     cmocka_unit_test(check_malformed),
        cmocka_unit_test(check_long),      cmocka_unit_test(check_pipelined),
        cmocka_unit_test(check_slow),      cmocka_unit_test(check_port_in_use),
        cmocka_unit_test(check_updates),   cmocka_unit_test(check_bound),
        cmocka_unit_test(check_empty),
    };
    return cmocka_run_group_tests_name("server", tests, start, stop) != 0;
}
