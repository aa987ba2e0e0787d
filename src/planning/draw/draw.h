/* Traces as pictures.
 *
 * Several traces are drawn one above the other on one axis of time; nothing here knows which of
 * them was planned and which was measured.  Same traces and options, same bytes.
 */
#ifndef PLANNING_DRAW_DRAW_H
#define PLANNING_DRAW_DRAW_H

#include <stdio.h>

#include "planning/draw/timeline.h"
#include "weft/trace.h"

enum wf_draw_format {
    WF_DRAW_FORMAT_TEXT,
    WF_DRAW_FORMAT_SVG,
    WF_DRAW_FORMAT_PNG,
    WF_DRAW_FORMAT_PDF,
    WF_DRAW_FORMAT_CHROME, /* Chrome trace JSON, for Perfetto */
    WF_DRAW_FORMAT_HTML,   /* one page, nothing else needed */
    WF_DRAW_FORMAT_TRACE,  /* weft's own text form; one trace only */
};

struct wf_draw_options {
    const char *title;          /* borrowed; NULL: none */
    uint32_t width, height;     /* pixels, or columns of text; 0: what is fitting */
    bool lanes;                 /* sends and receives in rows of their own */
    double unit_seconds;        /* what abstract time means beside real time; 0: nothing */
    struct wf_text_style style; /* for text */
};

/* By the file's ending: .svg .png .pdf .html .txt .trace, .json for Chrome's.  False when it is
 * none of them. */
bool wf_draw_format_from_path(const char *path, enum wf_draw_format *out);

/* By name: "svg", "png", "pdf", "chrome", "html", "text", "trace". */
bool wf_draw_format_find(const char *name, enum wf_draw_format *out);

/* Draws on `out` in any format but PNG and PDF, which wf_render() adds.  Write errors stay in the
 * stream.  Returns WEFT_USAGE if the traces cannot share an axis or the picture is too large. */
enum weft_status wf_draw(FILE *out, enum wf_draw_format format, const struct weft_trace *traces,
                         size_t n, const struct wf_draw_options *options,
                         struct weft_error *err);

#endif
