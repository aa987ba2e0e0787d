/* Which requests are answered, by method, host and path. */
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
    {"its news", {"GET", "/data.json", "127.0.0.1:8384", NULL, 1, false}, 8384, 200},
    {"its head", {"HEAD", "/", "localhost:8384", "none", 1, false}, 8384, 200},
    {"from itself", {"GET", "/", "[::1]:8384", "same-origin", 1, false}, 8384, 200},
    {"a name in capitals", {"GET", "/", "LocalHost:8384", NULL, 1, false}, 8384, 200},
    {"port 80 is not said", {"GET", "/", "localhost", NULL, 1, false}, 80, 200},
    {"no port", {"GET", "/", "localhost", NULL, 1, false}, 8384, 421},
    {"another port", {"GET", "/", "localhost:8385", NULL, 1, false}, 8384, 421},
    {"a longer port", {"GET", "/", "localhost:83840", NULL, 1, false}, 8384, 421},
    {"a port with a zero", {"GET", "/", "localhost:08384", NULL, 1, false}, 8384, 421},
    {"another name", {"GET", "/", "evil.test:8384", NULL, 1, false}, 8384, 421},
    {"a name that ends so", {"GET", "/", "xlocalhost:8384", NULL, 1, false}, 8384, 421},
    {"a name that begins so", {"GET", "/", "localhost.evil:8384", NULL, 1, false}, 8384, 421},
    {"a dot at its end", {"GET", "/", "localhost.:8384", NULL, 1, false}, 8384, 421},
    {"a user", {"GET", "/", "x@localhost:8384", NULL, 1, false}, 8384, 421},
    {"another loopback", {"GET", "/", "127.0.0.2:8384", NULL, 1, false}, 8384, 421},
    {"a short address", {"GET", "/", "127.1:8384", NULL, 1, false}, 8384, 421},
    {"any address", {"GET", "/", "0.0.0.0:8384", NULL, 1, false}, 8384, 421},
    {"six without brackets", {"GET", "/", "::1:8384", NULL, 1, false}, 8384, 421},
    {"an empty host", {"GET", "/", "", NULL, 1, false}, 8384, 421},
    {"no host", {"GET", "/", NULL, NULL, 0, false}, 8384, 421},
    {"two hosts", {"GET", "/", "localhost:8384", NULL, 2, false}, 8384, 421},
    {"a space", {"GET", "/", " localhost:8384", NULL, 1, false}, 8384, 421},
    {"another site", {"GET", "/", "localhost:8384", "cross-site", 1, false}, 8384, 403},
    {"a site beside", {"GET", "/", "localhost:8384", "same-site", 1, false}, 8384, 403},
    {"an unknown site", {"GET", "/", "localhost:8384", "", 1, false}, 8384, 403},
    {"a post", {"POST", "/", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"a delete", {"DELETE", "/data.json", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"options", {"OPTIONS", "*", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"a verb made up", {"KILL", "/", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"small letters", {"get", "/", "localhost:8384", NULL, 1, false}, 8384, 405},
    {"a body", {"GET", "/", "localhost:8384", NULL, 1, true}, 8384, 413},
    {"another path", {"GET", "/x", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"a file", {"GET", "/metrics.jsonl", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"up", {"GET", "/../etc/passwd", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"up in disguise", {"GET", "/%2e%2e/etc", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"twice a slash", {"GET", "//", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"no path", {"GET", "", "localhost:8384", NULL, 1, false}, 8384, 404},
    {"news and more", {"GET", "/data.json/", "localhost:8384", NULL, 1, false}, 8384, 404},
    /* What is wrong first is told: to a stranger, nothing but that. */
    {"a stranger's post", {"POST", "/x", "evil.test", "cross-site", 1, true}, 8384, 421},
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
