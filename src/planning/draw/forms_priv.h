/* The forms that are written from traces, not from a picture. */
#ifndef PLANNING_DRAW_FORMS_PRIV_H
#define PLANNING_DRAW_FORMS_PRIV_H

#include "planning/draw/draw.h"

enum weft_status weft_write_chrome(FILE *out, const struct weft_trace *traces, size_t n,
                                   const struct weft_draw_options *options,
                                   struct weft_error *err);
enum weft_status weft_write_page(FILE *out, const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options,
                                 struct weft_error *err);
enum weft_status weft_write_text(FILE *out, const struct weft_trace *traces, size_t n,
                                 const struct weft_draw_options *options,
                                 struct weft_error *err);

#endif
