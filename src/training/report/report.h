/* An HTML page about one or several runs: written as a single file, or served while the run
 * continues.
 *
 *     const char *dirs[] = {"runs/a"};
 *     wf_report_write(out, dirs, 1, &err);
 *
 *     struct wf_report_server *server;
 *     if (wf_report_server_start(dirs, 1, 8384, &server, &err) != WEFT_OK)
 *         warn(err.msg);                             the run continues without it
 *     ...
 *     wf_report_server_stop(server);
 *
 * If a run has no traces, plan.json or samples, the page omits that part. */
#ifndef TRAINING_REPORT_REPORT_H
#define TRAINING_REPORT_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/status.h"

/* Writes the page of one run, or of several runs with their curves in common charts.  The
 * caller checks the stream for write errors.  Returns WEFT_DATA if a directory is not the
 * directory of a run. */
enum weft_status wf_report_write(FILE *out, const char *const *dirs, size_t n,
                                 struct weft_error *err);

/* Returns the path of the page in the directory of a run, or NULL if memory runs out.  The
 * caller frees the result. */
char *wf_report_path(const char *dir);

/* Writes the page to a file atomically.  Local. */
enum weft_status wf_report_write_file(const char *path, const char *const *dirs, size_t n,
                                      struct weft_error *err);

enum { WF_REPORT_PORT = 8384 }; /* port of the server, unless the user chooses another one */

struct wf_report_server;

/* Starts a thread of low priority that serves the page of these runs to this machine only, at
 * http://127.0.0.1:port/ and on ::1.  Port 0 selects a free port.  The page is rebuilt when the
 * runs change.  The directories are only read and may still be empty.  Returns WEFT_IO if the
 * port is in use. */
enum weft_status wf_report_server_start(const char *const *dirs, size_t n, uint16_t port,
                                        struct wf_report_server **out, struct weft_error *err);
/* Returns the port on which the server listens. */
uint16_t wf_report_server_port(const struct wf_report_server *s);
/* Stops the thread and frees the server. */
void wf_report_server_stop(struct wf_report_server *s); /* NULL is allowed */

#endif
