/* Decides how the server answers requests, independently of sockets. */
#ifndef TRAINING_REPORT_SERVER_PRIV_H
#define TRAINING_REPORT_SERVER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "training/report/report.h"

enum wf_route { WF_ROUTE_PAGE, WF_ROUTE_DATA };

/* The headers of a request.  A string is NULL if its header is missing. */
struct wf_request {
    const char *method, *path, *host, *site; /* site: value of the header Sec-Fetch-Site */
    size_t n_hosts;                          /* number of Host headers */
    bool body;                               /* the request has a body */
};

/* Returns the HTTP status, and sets *route if the status is 200.  A host name that is not
 * local results in 421, so that a page of another site cannot read the report through DNS
 * rebinding. */
unsigned wf_request_status(const struct wf_request *r, uint16_t port, enum wf_route *route);

/* Creates a server without an address and a thread.  The caller owns *out. */
enum weft_status wf_report_server_new(const char *const *dirs, size_t n, uint16_t port,
                                      struct wf_report_server **out, struct weft_error *err);
/* Gives the server a connection whose other end is *fd.  For tests. */
enum weft_status wf_report_server_connect(struct wf_report_server *s, int *fd,
                                          struct weft_error *err);
/* Processes pending requests.  For tests. */
void wf_report_server_run(struct wf_report_server *s);

#endif
