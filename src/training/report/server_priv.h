/* What the server answers, apart from sockets. */
#ifndef TRAINING_REPORT_SERVER_PRIV_H
#define TRAINING_REPORT_SERVER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "training/report/report.h"

enum wf_route { WF_ROUTE_PAGE, WF_ROUTE_DATA };

/* A request, as its head says it.  Texts may be NULL: it does not say. */
struct wf_request {
    const char *method, *path, *host, *site; /* site: Sec-Fetch-Site */
    size_t n_hosts;                          /* times that Host is given */
    bool body;                               /* it announces one */
};

/* The status of the answer; 200 sets *route.  A name that is not this machine's own is 421: a
 * page of some other site that got itself our address (DNS rebinding) must learn nothing. */
unsigned wf_request_status(const struct wf_request *r, uint16_t port, enum wf_route *route);

/* A server without address and thread, for tests: it is given connections, of which *fd is the
 * other end, and does what there is to do when it is run. */
enum weft_status wf_report_server_new(const char *const *dirs, size_t n, uint16_t port,
                                      struct wf_report_server **out, struct weft_error *err);
enum weft_status wf_report_server_connect(struct wf_report_server *s, int *fd,
                                          struct weft_error *err);
void wf_report_server_run(struct wf_report_server *s);

#endif
