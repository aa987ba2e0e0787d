/* The page, piece by piece. */
#ifndef TRAINING_REPORT_PAGE_PRIV_H
#define TRAINING_REPORT_PAGE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "training/report/run.h"
#include "training/report/words.h"

/* report.js and report.css as bytes; the build makes them from the files (cmake/embed.cmake). */
extern const unsigned char weft_report_script[], weft_report_style[];
extern const size_t weft_report_script_len, weft_report_style_len;

struct weft_page {
    FILE *out;       /* borrowed */
    FILE *charts;    /* borrowed: what the script knows of charts, as JSON without brackets */
    FILE *timelines; /* borrowed: likewise */
    size_t n_charts, n_timelines;
    struct weft_run *runs; /* borrowed */
    size_t n;
    time_t now;
    bool failed; /* no memory */
};

/* What the charts and parts are put between. */
void weft_page_section(struct weft_page *p, const char *title);
void weft_page_section_end(struct weft_page *p);

/* A cell of a table with a figure. */
void weft_page_cell(struct weft_page *p, enum weft_unit unit, double value);

/* Curves of all runs: curves.c. */
void weft_page_curves(struct weft_page *p);

/* What a step of a run did: details.c. */
void weft_page_time(struct weft_page *p, const struct weft_run *run);
void weft_page_timeline(struct weft_page *p, const struct weft_run *run);
void weft_page_bubble(struct weft_page *p, const struct weft_run *run);
void weft_page_memory(struct weft_page *p, const struct weft_run *run);
void weft_page_traffic(struct weft_page *p, const struct weft_run *run);

/* What it left behind: keeps.c. */
void weft_page_checkpoints(struct weft_page *p, const struct weft_run *run);
void weft_page_samples(struct weft_page *p, const struct weft_run *run);
void weft_page_settings(struct weft_page *p, const struct weft_run *run);

/* -- the whole ------------------------------------------------------------------------------ */

/* The page of these runs, which have been read.  `live`: it asks for news. */
enum weft_status weft_page_write(FILE *out, struct weft_run *runs, size_t n, bool live,
                                 struct weft_error *err);

/* What the live page asks for: the runs' figures, one line of JSON. */
void weft_page_write_news(FILE *out, const struct weft_run *runs, size_t n);

/* The policy of the page, as its header and its meta element have it. */
void weft_page_policy(FILE *out, bool live, bool header);

#endif
