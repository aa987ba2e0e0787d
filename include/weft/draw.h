/* Draws traces: as text, SVG, an HTML page, or a Chrome trace.
 *
 *     struct weft_trace t;
 *     struct weft_draw_options options = {.title = "my plan"};
 *     if (weft_trace_init_plan(&t, schedule, &metrics, NULL, &err) == WEFT_OK)
 *         weft_draw(file, WEFT_DRAW_FORMAT_SVG, &t, 1, &options, &err);
 *
 * Several traces, planned or measured, are drawn one above the other on one time axis.  The
 * same traces and options give the same bytes.  weft/render.h adds PNG and PDF.
 *
 * Unstable: struct weft_draw_options gains fields.
 */
#ifndef WEFT_DRAW_H
#define WEFT_DRAW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum weft_draw_format {
    WEFT_DRAW_FORMAT_TEXT,
    WEFT_DRAW_FORMAT_SVG,
    WEFT_DRAW_FORMAT_PNG,    /* weft_render() only */
    WEFT_DRAW_FORMAT_PDF,    /* weft_render() only */
    WEFT_DRAW_FORMAT_CHROME, /* Chrome trace JSON, for Perfetto */
    WEFT_DRAW_FORMAT_HTML,   /* one self-contained page */
    WEFT_DRAW_FORMAT_TRACE,  /* weft's own trace file; one trace only */
};

/* How text is drawn on a terminal. */
struct weft_text_style {
    unsigned width; /* columns */
    bool colour;    /* uses terminal escape sequences for colours */
    bool utf8;      /* false: ASCII only */
};

struct weft_draw_options {
    const char *title;            /* borrowed; NULL: none */
    uint32_t width, height;       /* pixels, or columns of text; 0: automatic */
    bool lanes;                   /* draws the lanes other than compute in separate rows */
    double unit_seconds;          /* seconds per abstract unit of time; 0: unknown */
    struct weft_text_style style; /* for WEFT_DRAW_FORMAT_TEXT */
};

/* Finds the format by the file name extension: .svg .png .pdf .html .txt .trace, and .json for
 * Chrome traces.  Returns false for any other extension. */
WEFT_API bool weft_draw_format_from_path(const char *path, enum weft_draw_format *out);

/* Finds the format by name: "svg", "png", "pdf", "chrome", "html", "text" or "trace".  Returns
 * false for any other name. */
WEFT_API bool weft_draw_format_find(const char *name, enum weft_draw_format *out);

/* Draws `n` traces to `out`.  Does not report write errors: check ferror(out).  Returns
 * WEFT_USAGE if the traces cannot share an axis, if the picture is too large, or if the format
 * is PNG or PDF. */
WEFT_API enum weft_status weft_draw(FILE *out, enum weft_draw_format format,
                                    const struct weft_trace *traces, size_t n,
                                    const struct weft_draw_options *options,
                                    struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
