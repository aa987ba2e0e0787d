/* Sends any bytes as a request.  Checks that the server returns the page only if the request
 * names this machine and requests the page, and at most one page. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "require.h"
#include "training/report/server_priv.h"

enum { PORT = 8384 };

/* Returns true if the bytes contain a text, ignoring case. */
static int has(const uint8_t *data, size_t size, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= size; i++)
        if (strncasecmp((const char *)data + i, text, n) == 0)
            return 1;
    return 0;
}

static void check_answer(const char *answer, const uint8_t *data, size_t size)
{
    if (answer[0] == '\0')
        return;
    require(strncmp(answer, "HTTP/1.", 7) == 0);
    if (strncmp(answer + 8, " 200", 4) == 0)
        require(has(data, size, "localhost:8384") || has(data, size, "127.0.0.1:8384") ||
                has(data, size, "[::1]:8384"));
    else
        require(strstr(answer, "weft report") == NULL && strstr(answer, "DOCTYPE") == NULL);
    /* libmicrohttpd sends the header of its own error pages twice and closes the connection. */
    require(strstr(answer + 1, "\nHTTP/1.1 200") == NULL);
}

static void check_decision(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    enum wf_route route;
    struct wf_request r = {.method = "GET", .path = "/", .host = text, .n_hosts = 1};
    int own = strcasecmp(text, "localhost:8384") == 0 || strcmp(text, "127.0.0.1:8384") == 0 ||
              strcmp(text, "[::1]:8384") == 0;
    require(wf_request_status(&r, PORT, &route) == (own ? 200u : 421u));
    r = (struct wf_request){
        .method = text, .path = "/", .host = "localhost:8384", .n_hosts = 1};
    int known = strcmp(text, "GET") == 0 || strcmp(text, "HEAD") == 0;
    require(wf_request_status(&r, PORT, &route) == (known ? 200u : 405u));
    r = (struct wf_request){
        .method = "GET", .path = text, .host = "localhost:8384", .n_hosts = 1};
    known = strcmp(text, "/") == 0 || strcmp(text, "/data.json") == 0;
    require(wf_request_status(&r, PORT, &route) == (known ? 200u : 404u));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wf_report_server *server;
    static const char *const dirs[] = {"/nowhere/run"};
    static char answer[1 << 17];
    int fd;
    size_t n = 0;

    if (size > 16384)
        return 0;
    check_decision(data, size);

    if (server == NULL)
        require(wf_report_server_new(dirs, 1, PORT, &server, NULL) == WEFT_OK);
    require(wf_report_server_connect(server, &fd, NULL) == WEFT_OK);
    fcntl(fd, F_SETFL, O_NONBLOCK);

    if (size > 0)
        (void)!send(fd, data, size, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);

    for (int turns = 0, quiet = 0; turns < 200 && quiet < 4; turns++) {
        wf_report_server_run(server);
        ssize_t got = recv(fd, answer + n, sizeof answer - 1 - n, 0);
        if (got == 0)
            break;
        quiet = got < 0 ? quiet + 1 : 0;
        n += got > 0 ? (size_t)got : 0;
    }

    answer[n] = '\0';
    check_answer(answer, data, size);
    close(fd);
    wf_report_server_run(server);
    return 0;
}
