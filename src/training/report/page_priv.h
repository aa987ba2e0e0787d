/* The page, piece by piece. */
#ifndef TRAINING_REPORT_PAGE_PRIV_H
#define TRAINING_REPORT_PAGE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "training/report/run.h"
#include "training/report/units.h"

/* report.js and report.css as bytes; the build makes them from the files (cmake/embed.cmake). */
extern const unsigned char wf_report_script[], wf_report_style[];
extern const size_t wf_report_script_len, wf_report_style_len;

struct wf_page {
    FILE *out;       /* borrowed */
    FILE *charts;    /* borrowed: what the script knows of charts, as JSON without brackets */
    FILE *timelines; /* borrowed: likewise */
    size_t n_charts, n_timelines;
    struct wf_run *runs; /* borrowed */
    size_t n;
    time_t now;
    bool failed; /* no memory */
};

/* What the charts and parts are put between. */
void wf_page_section(struct wf_page *p, const char *title);
void wf_page_section_end(struct wf_page *p);

/* A cell of a table with a figure. */
void wf_page_cell(struct wf_page *p, enum wf_unit unit, double value);

/* Curves of all runs: curves.c. */
void wf_page_curves(struct wf_page *p);

/* What a step of a run did: details.c. */
void wf_page_time(struct wf_page *p, const struct wf_run *run);
void wf_page_timeline(struct wf_page *p, const struct wf_run *run);
void wf_page_bubble(struct wf_page *p, const struct wf_run *run);
void wf_page_memory(struct wf_page *p, const struct wf_run *run);
void wf_page_traffic(struct wf_page *p, const struct wf_run *run);

/* What it left behind: keeps.c. */
void wf_page_checkpoints(struct wf_page *p, const struct wf_run *run);
void wf_page_samples(struct wf_page *p, const struct wf_run *run);
void wf_page_settings(struct wf_page *p, const struct wf_run *run);

/* -- the whole ------------------------------------------------------------------------------ */

/* The page of these runs, which have been read.  `live`: it asks for news. */
enum weft_status wf_page_write(FILE *out, struct wf_run *runs, size_t n, bool live,
                               struct weft_error *err);

/* What the live page asks for: the runs' figures, one line of JSON. */
void wf_page_write_data(FILE *out, const struct wf_run *runs, size_t n);

/* The policy of the page, as its header and its meta element have it. */
void wf_page_policy(FILE *out, bool live, bool header);

#endif
