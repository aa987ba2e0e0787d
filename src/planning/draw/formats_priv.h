/* Declares the writers of the formats that are written directly from traces, without a
 * picture. */
#ifndef PLANNING_DRAW_FORMATS_PRIV_H
#define PLANNING_DRAW_FORMATS_PRIV_H

#include "weft/draw.h"

/* Writes traces in the trace format of Chrome. */
enum weft_status wf_write_chrome(FILE *out, const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options,
                                 struct weft_error *err);
/* Writes traces as an HTML page. */
enum weft_status wf_write_html(FILE *out, const struct weft_trace *traces, size_t n,
                               const struct weft_draw_options *options, struct weft_error *err);
/* Writes traces as text. */
enum weft_status wf_write_text(FILE *out, const struct weft_trace *traces, size_t n,
                               const struct weft_draw_options *options, struct weft_error *err);

#endif
