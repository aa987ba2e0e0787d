/* What became of a run, as one page with everything in it: to keep as a file, or served while the
 * run goes on.
 *
 *     const char *dirs[] = {"runs/a"};
 *     wf_report_write(out, dirs, 1, &err);
 *
 *     struct wf_report_server *server;
 *     if (wf_report_server_start(dirs, 1, 8384, &server, &err) != WEFT_OK)
 *         warn(err.msg);                             the run goes on without
 *     ...
 *     wf_report_server_stop(server);
 *
 * A run that lacks something (traces, plan.json, samples) lacks that part of the page. */
#ifndef TRAINING_REPORT_REPORT_H
#define TRAINING_REPORT_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/status.h"

/* The page of one run, or of several over each other.  Write errors stay in the stream.
 * WEFT_DATA when a directory is none of a run, or its metrics cannot be read. */
enum weft_status wf_report_write(FILE *out, const char *const *dirs, size_t n,
                                 struct weft_error *err);

struct wf_report_server;

/* Serves the page of these runs, anew whenever they have changed, at http://127.0.0.1:port/ and
 * ::1, to this machine alone; port 0 takes any that is free.  It reads the directories and writes
 * nothing.  It has one thread of low priority; the caller's go on.  WEFT_IO when the port is
 * taken.  Directories need not hold anything yet. */
enum weft_status wf_report_server_start(const char *const *dirs, size_t n, uint16_t port,
                                        struct wf_report_server **out, struct weft_error *err);
uint16_t wf_report_server_port(const struct wf_report_server *s);
void wf_report_server_stop(struct wf_report_server *s); /* NULL is allowed */

#endif
