/* How the server answers requests, independent of sockets. */
#ifndef TRAINING_REPORT_SERVER_PRIV_H
#define TRAINING_REPORT_SERVER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "training/report/report.h"

enum wf_route { WF_ROUTE_PAGE, WF_ROUTE_DATA };

/* The head of a request.  Texts may be NULL: not given. */
struct wf_request {
    const char *method, *path, *host, *site; /* site: Sec-Fetch-Site */
    size_t n_hosts;                          /* number of Host headers */
    bool body;                               /* the request has one */
};

/* Returns the HTTP status; 200 sets *route.  A host name that is not local gives 421, so that a page of
 * another site cannot read the report through DNS rebinding. */
unsigned wf_request_status(const struct wf_request *r, uint16_t port, enum wf_route *route);

/* For tests: create a server without address and thread, give it a connection whose other end is *fd,
 * and process what is pending. */
enum weft_status wf_report_server_new(const char *const *dirs, size_t n, uint16_t port,
                                      struct wf_report_server **out, struct weft_error *err);
enum weft_status wf_report_server_connect(struct wf_report_server *s, int *fd,
                                          struct weft_error *err);
void wf_report_server_run(struct wf_report_server *s);

#endif
