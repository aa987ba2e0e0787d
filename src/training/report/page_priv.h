/* The parts of the page. */
#ifndef TRAINING_REPORT_PAGE_PRIV_H
#define TRAINING_REPORT_PAGE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "training/report/run.h"
#include "training/report/units.h"

/* The bytes of report.js and report.css, embedded by the build (cmake/embed.cmake). */
extern const unsigned char wf_report_script[], wf_report_style[];
extern const size_t wf_report_script_len, wf_report_style_len;

struct wf_page {
    FILE *out; /* borrowed */
    /* borrowed: the numbers of the charts for the script, as JSON without brackets */
    FILE *charts;
    FILE *timelines; /* borrowed: the timelines for the script, as JSON without brackets */
    size_t n_charts, n_timelines;
    struct wf_run *runs; /* borrowed */
    size_t n;
    time_t now;
    bool failed; /* memory has run out */
};

/* Writes the start of a section. */
void wf_page_section(struct wf_page *p, const char *title);
/* Writes the end of a section. */
void wf_page_section_end(struct wf_page *p);

/* Writes a table cell with a figure, or an empty cell if the figure is not finite. */
void wf_page_cell(struct wf_page *p, enum wf_unit unit, double value);

/* Writes the curves of all runs: curves.c. */
void wf_page_curves(struct wf_page *p);

/* details.c: the ranks of a run in one step. */

/* Writes how each rank spent its time. */
void wf_page_time(struct wf_page *p, const struct wf_run *run);
/* Writes the planned and the measured timeline. */
void wf_page_timeline(struct wf_page *p, const struct wf_run *run);
/* Writes the planned and the measured idle time by cause. */
void wf_page_bubble(struct wf_page *p, const struct wf_run *run);
/* Writes the memory of each rank. */
void wf_page_memory(struct wf_page *p, const struct wf_run *run);
/* Writes the bytes sent between ranks. */
void wf_page_traffic(struct wf_page *p, const struct wf_run *run);

/* artifacts.c: the files of a run. */

/* Writes the list of checkpoints. */
void wf_page_checkpoints(struct wf_page *p, const struct wf_run *run);
/* Writes the generated samples. */
void wf_page_samples(struct wf_page *p, const struct wf_run *run);
/* Writes the settings. */
void wf_page_settings(struct wf_page *p, const struct wf_run *run);

/* -- the page ------------------------------------------------------------------------------ */

/* Writes the page of `runs`, which the caller has read.  A `live` page polls for updates. */
enum weft_status wf_page_write(FILE *out, struct wf_run *runs, size_t n, bool live,
                               struct weft_error *err);

/* Writes the data that the live page polls: the figures of the runs as one line of JSON. */
void wf_page_write_data(FILE *out, const struct wf_run *runs, size_t n);

/* Writes the Content-Security-Policy: the HTTP header value if `header` is true, otherwise the
 * content of the meta element. */
void wf_page_policy(FILE *out, bool live, bool header);

#endif
