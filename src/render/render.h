/* Traces as pictures in every format: those of planning/draw, and PNG and PDF by cairo.
 *
 * This module is apart from planning/draw so that the planning library does not link cairo. */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H

#include "planning/draw/draw.h"

/* Draws `n` traces on `out` like wf_draw(), in all formats.  Write errors stay in the stream.
 * Returns WEFT_USAGE if the traces cannot share an axis or the picture is too large. */
enum weft_status wf_render(FILE *out, enum wf_draw_format format,
                           const struct weft_trace *traces, size_t n,
                           const struct wf_draw_options *options, struct weft_error *err);

#endif
