/* Checks the status of requests by method, host and path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/report/server_priv.h"

static const struct request_case {
    const char *name;
    struct wf_request r;
    unsigned port, want;
} cases[] = {
    {"the page", {"GET", "/", "127.0.0.1:80", NULL, 1, false}, 80, 200},
    {"the data", {"GET", "/data.json", "127.0.0.1:8384", NULL, 1, false}, 8384, 200},
    {"a HEAD request", {"HEAD", "/", "localhost:8384", "none", 1, false}, 8384, 200},
    {"same origin", {"GET", "/", "[::1]:8384", "same-origin", 1, false}, 8384, 200},
    {"host in upper case", {"GET", "/", "LocalHost:8384", NULL, 1, false}, 8384, 200},
    {"port 80 is omitted", {"GET", "/", "localhost", NULL, 1, false}, 80, 200},
    {"no port", {"GET", "/", "localhost", NULL, 1, false}, 8384, 421},
    {"another port", {"GET", "/", "localhost:8385", NULL, 1, false}, 8384, 421},
    {"a longer port", {"GET", "/", "localhost:83840", NULL, 1, false}, 8384, 421},
    {"a port with a leading zero", {"GET", "/", "localhost:08384", NULL, 1, false}, 8384, 421},
    {"another host", {"GET", "/", "evil.test:8384", NULL, 1, false}, 8384, 421},
    {"a host that ends in localhost",
     {"GET", "/", "xlocalhost:8384", NULL, 1, false},
     8384,
     421},
    {"a host that starts with localhost",
     {"GET", "/", "localhost.evil:8384", NULL, 1, false},
     8384,
     421},
    {"a trailing dot", {"GET", "/", "localhost.:8384", NULL, 1, false}, 8384, 421},
    {"a user", {"GET", "/", "x@localhost:8384", NULL, 1, false}, 8384, 421},
    {"another loopback address", {"GET", "/", "127.0.0.2:8384", NULL, 1, false}, 8384, 421},
    {"an abbreviated address", {"GET", "/", "127.1:8384", NULL, 1, false}, 8384, 421},
    {"the wildcard address", {"GET", "/", "0.0.0.0:8384", NULL, 1, false}, 8384, 421},
    {"IPv6 without brackets", {"GET", "/", "::1:8384", NULL, 1, false}, 8384, 421},
    {"an empty host", {"GET", "/", "", NULL, 1, false}, 8384, 421},
    {"no host", {"GET", "/", NULL, NULL, 0, false}, 8384, 421},
    {"two Host headers", {"GET", "/", "localhost:8384", NULL, 2, false}, 8384, 421},
    {"a leading space", {"GET", "/", " localhost:8384", NULL, 1, false}, 8384, 421},
    {"another site", {"GET", "/", "localhost:8384", "cross-site", 1, false}, 8384, 403},
    {"a sibling site", {"GET", "/", "localhost:8384", "same-site", 1, false}, 8384, 403},
    {"an unknown site", {"GET", "/", "localhost:8384", "", 1, false}, 8384, 403},
    {"POST", {"POST", "/", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"DELETE", {"DELETE", "/data.json", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"OPTIONS", {"OPTIONS", "*", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"an unknown method", {"KILL", "/", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"a method in lower case", {"get", "/", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"a body", {"GET", "/", "localhost:8384", NULL, 1, true}, 8384, 413},
    {"another path", {"GET", "/x", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"a file", {"GET", "/metrics.jsonl", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"a parent directory",
     {"GET", "/../etc/passwd", "localhost:8384", NULL, 1, false},
     8384,
     404},
    {"an encoded parent directory",
     {"GET", "/%2e%2e/etc", "localhost:8384", NULL, 1, false},
     8384,
     404},
    {"two slashes", {"GET", "//", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"an empty path", {"GET", "", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"the data with a trailing slash",
     {"GET", "/data.json/", "localhost:8384", NULL, 1, false},
     8384,
     404},
    /* The host is checked first: another host gets no other information. */
    {"POST from another host", {"POST", "/x", "evil.test", "cross-site", 1, true}, 8384, 421},
};

static void check(void **state)
{
    const struct request_case *c = *state;
    enum wf_route route = WF_ROUTE_PAGE;
    assert_int_equal(wf_request_status(&c->r, (uint16_t)c->port, &route), c->want);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases)];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check, NULL, NULL, (void *)&cases[i]};
    return cmocka_run_group_tests_name("request", tests, NULL, NULL) != 0;
}
