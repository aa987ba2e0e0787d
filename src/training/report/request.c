/* Decides how the server answers a request. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "training/report/server_priv.h"

/* Returns true if `host` names this machine and the port, such as "127.0.0.1:8384", in upper or
 * lower case.  Browsers leave out port 80. */
static bool is_local_host(const char *host, uint16_t port)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char own[32];
        snprintf(own, sizeof own, "%s:%u", names[i], (unsigned)port);
        if (strcasecmp(host, own) == 0 || (port == 80 && strcasecmp(host, names[i]) == 0))
            return true;
    }
    return false;
}

/* Returns true if the page itself sent the request, or if a user typed the address. */
static bool is_same_origin(const char *site)
{
    return site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

unsigned wf_request_status(const struct wf_request *r, uint16_t port, enum wf_route *route)
{
    static const struct {
        const char *path;
        enum wf_route route;
    } routes[] = {{"/", WF_ROUTE_PAGE}, {"/data.json", WF_ROUTE_DATA}};
    if (r->n_hosts != 1 || r->host == NULL || !is_local_host(r->host, port))
        return 421;
    if (!is_same_origin(r->site))
        return 403;
    if (r->method == NULL || (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0))
        return 405;
    if (r->body)
        return 413;
    for (size_t i = 0; r->path != NULL && i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(r->path, routes[i].path) == 0) {
            *route = routes[i].route;
            return 200;
        }
    return 404;
}
