/* Adds areas, cells and labels to a picture, and measures text. */
#include "planning/draw/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Grows an array by one element.  Returns NULL if memory allocation fails. */
static void *more(struct wf_picture *p, void *at, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return at;
    size_t grown = *cap < 64 ? 64 : *cap + *cap / 2, bytes;
    void *moved = wf_size_mul(grown, size, &bytes) ? realloc(at, bytes) : NULL;
    if (moved == NULL)
        p->failed = true;
    else
        *cap = grown;
    return moved;
}

void wf_picture_add_area(struct wf_picture *p, double x, double y, double w, double h,
                         enum wf_ink ink)
{
    struct wf_area *at = more(p, p->areas, &p->cap_areas, p->n_areas, sizeof *at);
    if (at == NULL)
        return;
    p->areas = at;
    at[p->n_areas++] = (struct wf_area){x, y, w, h, ink};
}

void wf_picture_add_cell(struct wf_picture *p, struct wf_cell cell)
{
    struct wf_cell *at = more(p, p->cells, &p->cap_cells, p->n_cells, sizeof *at);
    if (at == NULL)
        return;
    p->cells = at;
    at[p->n_cells++] = cell;
}

/* Widths of the printable ASCII characters in DejaVu Sans, in thousandths of the font size.
 * DejaVu Sans is the widest of the requested fonts, so text is never wider than computed. */
static const uint16_t widths[95] = {
    318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
    636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
    1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
    603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
    500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
    635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};

static double char_width(unsigned char c)
{
    if (c >= ' ' && c <= '~')
        return widths[c - ' '];
    return (c & 0xc0) == 0x80 ? 0 : 1000; /* continuation bytes of UTF-8 have no width */
}

double wf_text_width(const char *text, double size, bool bold)
{
    double sum = 0;
    for (; *text != '\0'; text++)
        sum += char_width((unsigned char)*text);
    return sum / 1000 * size * (bold ? 1.2 : 1);
}

void wf_picture_add_label(struct wf_picture *p, struct wf_label label, const char *text,
                          double room)
{
    struct wf_label *at = more(p, p->labels, &p->cap_labels, p->n_labels, sizeof *at);
    if (at == NULL)
        return;

    p->labels = at;
    label.text = p->texts.len;
    label.width = wf_text_width(text, label.size, label.bold);

    if (label.width <= room) {
        wf_text_adds(&p->texts, text);
    } else {
        double unit = label.size / 1000 * (label.bold ? 1.2 : 1), dots = 3 * 318 * unit,
               sum = 0;
        size_t n = 0;

        while (text[n] != '\0' &&
               sum + char_width((unsigned char)text[n]) * unit + dots <= room)
            sum += char_width((unsigned char)text[n++]) * unit;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--; /* do not cut inside a UTF-8 character */

        wf_text_add(&p->texts, text, n);
        wf_text_adds(&p->texts, "...");
        label.width = sum + dots;
    }

    wf_text_addc(&p->texts, '\0');
    at[p->n_labels++] = label;
}

unsigned wf_cell_bands(const struct wf_cell *c, struct wf_cell out[2])
{
    unsigned n = 0;
    bool top = c->kind == WEFT_ACT_I || c->kind == WEFT_ACT_B;
    bool bottom = c->kind == WEFT_ACT_W || c->kind == WEFT_ACT_B;
    float height = c->h / 7 < 3.2f ? c->h / 7 : 3.2f;
    if (!c->banded)
        return 0;
    if (top)
        out[n++] = (struct wf_cell){c->x, c->y, c->w, height, c->kind, c->shade, false};
    if (bottom)
        out[n++] = (struct wf_cell){c->x, c->y + c->h - height, c->w, height, c->kind, c->shade,
                                    false};
    return n;
}

void wf_picture_release(struct wf_picture *p)
{
    free(p->areas);
    free(p->cells);
    free(p->labels);
    wf_text_release(&p->texts);
    *p = (struct wf_picture){0};
}
