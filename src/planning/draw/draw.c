/* Selects the output format, and writes the formats text, SVG and trace. */
#include "weft/draw.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/draw/axis.h"
#include "planning/draw/formats_priv.h"
#include "planning/draw/picture.h"
#include "planning/draw/timeline.h"

static const struct {
    const char *name, *ending;
    enum weft_draw_format format;
} formats[] = {
    {"text", ".txt", WEFT_DRAW_FORMAT_TEXT},      {"svg", ".svg", WEFT_DRAW_FORMAT_SVG},
    {"png", ".png", WEFT_DRAW_FORMAT_PNG},        {"pdf", ".pdf", WEFT_DRAW_FORMAT_PDF},
    {"chrome", ".json", WEFT_DRAW_FORMAT_CHROME}, {"html", ".html", WEFT_DRAW_FORMAT_HTML},
    {"trace", ".trace", WEFT_DRAW_FORMAT_TRACE},
};

bool weft_draw_format_from_path(const char *path, enum weft_draw_format *out)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < WEFT_LEN(formats); i++) {
        size_t k = strlen(formats[i].ending);
        if (n >= k && strcmp(path + n - k, formats[i].ending) == 0) {
            *out = formats[i].format;
            return true;
        }
    }
    return false;
}

bool weft_draw_format_find(const char *name, enum weft_draw_format *out)
{
    for (size_t i = 0; i < WEFT_LEN(formats); i++)
        if (strcmp(formats[i].name, name) == 0) {
            *out = formats[i].format;
            return true;
        }
    return false;
}

/* -- text ---------------------------------------------------------------------------------- */

static enum weft_status put_text(struct wf_text *out, const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options,
                                 const struct wf_axis *axis, struct weft_error *err)
{
    const char *unit = strcmp(axis->unit, "\302\265s") == 0 ? "us" : wf_axis_unit(axis);
    if (options->title != NULL && options->title[0] != '\0') {
        wf_draw_sanitize(out, options->title);
        wf_text_adds(out, "\n\n");
    }
    for (size_t i = 0; i < n; i++) {
        struct wf_text_axis own = {axis->factor[i] * axis->show, axis->end * axis->show, n > 1,
                                   options->lanes, unit};
        if (i > 0)
            wf_text_addc(out, '\n');
        wf_draw_heading(out, &traces[i]);
        wf_text_adds(out, "\n\n");
        wf_draw_trace_timeline(out, &traces[i], &own, options->style);
        wf_text_addc(out, '\n');
        WEFT_TRY(wf_draw_metrics(out, &traces[i], axis, i, err));
        wf_text_addc(out, '\n');
    }
    return WEFT_OK;
}

enum weft_status wf_write_text(FILE *out, const struct weft_trace *traces, size_t n,
                               const struct weft_draw_options *options, struct weft_error *err)
{
    struct wf_text text = {0};
    struct wf_axis axis;
    WEFT_TRY(wf_axis_init(&axis, traces, n, options->unit_seconds, err));
    enum weft_status st = put_text(&text, traces, n, options, &axis, err);
    if (st == WEFT_OK && text.failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the drawing");
    if (st == WEFT_OK)
        fwrite(text.at, 1, text.len, out);
    wf_text_release(&text);
    wf_axis_release(&axis);
    return st;
}

/* -- pictures ------------------------------------------------------------------------------ */

static enum weft_status write_svg(FILE *out, const struct weft_trace *traces, size_t n,
                                  const struct weft_draw_options *options,
                                  struct weft_error *err)
{
    struct wf_picture p;
    WEFT_TRY(wf_picture_init(&p, traces, n, options, err));
    wf_paint_svg(out, &p);
    wf_picture_release(&p);
    return WEFT_OK;
}

static enum weft_status write_trace(FILE *out, const struct weft_trace *traces, size_t n,
                                    struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (n != 1)
        return WEFT_FAIL(err, WEFT_USAGE, "a trace file contains one trace (%zu given)", n);
    WEFT_TRY(weft_trace_write(traces, &text, &len, err));
    fwrite(text, 1, len, out);
    free(text);
    return WEFT_OK;
}

enum weft_status weft_draw(FILE *out, enum weft_draw_format format,
                           const struct weft_trace *traces, size_t n,
                           const struct weft_draw_options *options, struct weft_error *err)
{
    switch (format) {
    case WEFT_DRAW_FORMAT_TEXT:
        return wf_write_text(out, traces, n, options, err);
    case WEFT_DRAW_FORMAT_SVG:
        return write_svg(out, traces, n, options, err);
    case WEFT_DRAW_FORMAT_PNG:
    case WEFT_DRAW_FORMAT_PDF:
        return WEFT_FAIL(err, WEFT_USAGE,
                         "weft_draw() cannot write PNG or PDF; use weft_render()");
    case WEFT_DRAW_FORMAT_CHROME:
        return wf_write_chrome(out, traces, n, options, err);
    case WEFT_DRAW_FORMAT_HTML:
        return wf_write_html(out, traces, n, options, err);
    case WEFT_DRAW_FORMAT_TRACE:
        return write_trace(out, traces, n, err);
    }
    return WEFT_FAIL(err, WEFT_INTERNAL, "unknown drawing format");
}
