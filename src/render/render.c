/* Writes PNG and PDF with cairo. */
#include "weft/render.h"

#include <cairo-pdf.h>
#include <cairo.h>

#include "base/error.h"
#include "base/sysmem.h"
#include "planning/draw/picture.h"

/* Writes bytes to a stream.  Errors remain in the stream, so that all formats report them in
 * the same way. */
static cairo_status_t write_bytes(void *out, const unsigned char *bytes, unsigned int len)
{
    fwrite(bytes, 1, len, out);
    return CAIRO_STATUS_SUCCESS;
}

static void set_colour(cairo_t *c, uint32_t colour)
{
    cairo_set_source_rgb(c, (colour >> 16 & 0xff) / 255.0, (colour >> 8 & 0xff) / 255.0,
                         (colour & 0xff) / 255.0);
}

static void fill_cell(cairo_t *c, const struct wf_cell *cell, uint32_t colour)
{
    cairo_rectangle(c, cell->x, cell->y, cell->w, cell->h);
    set_colour(c, colour);
    cairo_fill(c);
}

static void paint_label(cairo_t *c, const struct wf_label *l, const char *text)
{
    cairo_text_extents_t extents;
    cairo_select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           l->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, l->size);
    cairo_text_extents(c, text, &extents);
    double left = l->anchor == WF_ANCHOR_START ? l->x
                  : l->anchor == WF_ANCHOR_END ? l->x - extents.x_advance
                                               : l->x - extents.x_advance / 2;
    cairo_move_to(c, left, l->y);
    set_colour(c, wf_ink_colour(l->ink));
    cairo_show_text(c, text);
}

static cairo_status_t paint(cairo_surface_t *surface, const struct wf_picture *p, double scale)
{
    cairo_t *c = cairo_create(surface);
    cairo_font_options_t *font = cairo_font_options_create();
    cairo_font_options_set_hint_metrics(font, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(font, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(c, font);
    cairo_font_options_destroy(font);

    cairo_scale(c, scale, scale);
    set_colour(c, wf_ink_colour(WF_INK_BACKGROUND));
    cairo_paint(c);

    for (size_t i = 0; i < p->n_areas; i++) {
        const struct wf_area *a = &p->areas[i];
        cairo_rectangle(c, a->x, a->y, a->w, a->h);
        set_colour(c, wf_ink_colour(a->ink));
        cairo_fill(c);
    }

    for (size_t i = 0; i < p->n_cells; i++) {
        const struct wf_cell *cell = &p->cells[i];
        struct wf_cell bands[2];
        fill_cell(c, cell, wf_kind_colour(cell->kind, cell->shade));
        for (unsigned b = 0, n = wf_cell_bands(cell, bands); b < n; b++)
            fill_cell(c, &bands[b], wf_band_colour(cell->kind));
    }

    for (size_t i = 0; i < p->n_labels; i++)
        paint_label(c, &p->labels[i], p->texts.at + p->labels[i].text);

    cairo_status_t status = cairo_status(c);
    cairo_destroy(c);
    return status;
}

/* Returns an error without the memory for fonts: fontconfig crashes if an allocation fails. */
static enum weft_status check_memory(struct weft_error *err)
{
    enum { FONT_BYTES = 16 << 20 };
    return wf_sysmem_can_allocate(FONT_BYTES)
               ? WEFT_OK
               : WEFT_FAIL(err, WEFT_NOMEM, "cannot paint: no memory for fonts (%d MiB)",
                           FONT_BYTES >> 20);
}

static enum weft_status check_cairo(cairo_status_t status, struct weft_error *err)
{
    if (status == CAIRO_STATUS_SUCCESS)
        return WEFT_OK;
    return WEFT_FAIL(err, status == CAIRO_STATUS_NO_MEMORY ? WEFT_NOMEM : WEFT_INTERNAL,
                     "cannot paint: %s", cairo_status_to_string(status));
}

static enum weft_status paint_png(FILE *out, const struct wf_picture *p, double scale,
                                  struct weft_error *err)
{
    enum { MAX_SIDE = 32767 }; /* maximum side length in pixels, a limit of cairo */
    double w = p->width * scale, h = p->height * scale;
    if (w > MAX_SIDE || h > MAX_SIDE)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a PNG of %.0f x %.0f pixels is too large (maximum %d per side); use "
                         "SVG or PDF",
                         w, h, MAX_SIDE);
    WEFT_TRY(check_memory(err));
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(w + 0.5), (int)(h + 0.5));
    cairo_status_t status = cairo_surface_status(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = paint(surface, p, scale);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, write_bytes, out);
    cairo_surface_destroy(surface);
    return check_cairo(status, err);
}

static enum weft_status paint_pdf(FILE *out, const struct wf_picture *p, struct weft_error *err)
{
    WEFT_TRY(check_memory(err));
    const double points = 0.75; /* points per pixel: an inch has 72 points and 96 pixels */
    cairo_surface_t *surface = cairo_pdf_surface_create_for_stream(
        write_bytes, out, p->width * points, p->height * points);
    cairo_status_t status = cairo_surface_status(surface);
    if (status == CAIRO_STATUS_SUCCESS) {
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE,
                                       p->texts.at + p->title);
        /* The date is fixed, so that the same picture always gives the same bytes. */
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE,
                                       "2000-01-01T00:00:00Z");
        status = paint(surface, p, points);
        cairo_surface_finish(surface);
        if (status == CAIRO_STATUS_SUCCESS)
            status = cairo_surface_status(surface);
    }
    cairo_surface_destroy(surface);
    return check_cairo(status, err);
}

enum weft_status weft_render(FILE *out, enum weft_draw_format format,
                             const struct weft_trace *traces, size_t n,
                             const struct weft_draw_options *options, struct weft_error *err)
{
    if (format != WEFT_DRAW_FORMAT_PNG && format != WEFT_DRAW_FORMAT_PDF)
        return weft_draw(out, format, traces, n, options, err);

    struct wf_picture p;
    WEFT_TRY(wf_picture_init(&p, traces, n, options, err));
    /* A requested width is in pixels.  The default is two pixels per drawing unit, for
     * high-resolution screens. */
    enum weft_status st = format == WEFT_DRAW_FORMAT_PDF
                              ? paint_pdf(out, &p, err)
                              : paint_png(out, &p, options->width != 0 ? 1 : 2, err);
    wf_picture_release(&p);
    return st;
}
