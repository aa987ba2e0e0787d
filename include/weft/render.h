/* Draws traces in every format: the formats of weft/draw.h, PNG and PDF.
 *
 * This header belongs to libweft, because PNG and PDF need cairo. */
#ifndef WEFT_RENDER_H
#define WEFT_RENDER_H

#include "weft/draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Draws `n` traces to `out` like weft_draw(), in all formats.  Check ferror(out) for write
 * errors.  Returns WEFT_USAGE if the traces cannot share an axis or the picture is too
 * large. */
WEFT_API enum weft_status weft_render(FILE *out, enum weft_draw_format format,
                                      const struct weft_trace *traces, size_t n,
                                      const struct weft_draw_options *options,
                                      struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
