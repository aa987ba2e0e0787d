/* Draws the rows around the findings of a verification, with a marker under each finding. */
#include "planning/draw/findings.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_AROUND = 2, MAX_CELLS = 64, GUTTER = 10 };

static size_t cell_text(const struct weft_action_span row, size_t i, char out[64])
{
    size_t n = weft_action_print(row.at[i], out);
    if (row.at[i].paired && i + 1 < row.len) {
        char second[WEFT_ACTION_TEXT_MAX];
        weft_action_print(row.at[i + 1], second);
        n = (size_t)snprintf(out + n, 64 - n, "&%s", second) + n;
    }
    return n;
}

/* Draws the cells of a row around the position `place`.  Returns the first column of the
 * cell at `place` and stores the width of this cell in *width. */
static size_t put_cells(struct wf_text *out, struct weft_action_span row, size_t place,
                        size_t room, size_t *width)
{
    char cell[64];
    size_t column = 0, mark = 0;

    if (place > 0 && place < row.len && row.at[place - 1].paired)
        place--; /* both actions of a pair are drawn as one cell */
    size_t begin = place < 3 ? 0 : (place > row.len ? row.len : place) - 3;
    if (begin > 0 && row.at[begin - 1].paired)
        begin--;

    *width = 1;
    if (begin > 0) {
        wf_text_adds(out, "... ");
        column += 4;
    }

    for (size_t i = begin; i < row.len && i < begin + MAX_CELLS; i++) {
        size_t n = cell_text(row, i, cell);
        if (column + n + 5 > room && i > place) {
            wf_text_adds(out, "...");
            return mark;
        }
        if (i == place) {
            mark = column;
            *width = n > 0 ? n : 1;
        }

        wf_text_addf(out, "%-5s", cell);
        wf_text_addc(out, ' ');
        column += (n > 5 ? n : 5) + 1;
        i += row.at[i].paired;
    }

    if (place >= row.len)
        mark = column;
    return mark;
}

static void put_row(struct wf_text *out, const struct weft_schedule *s, uint32_t rank,
                    const struct wf_annotation *p, size_t place, struct weft_text_style style)
{
    size_t width, room = style.width > GUTTER + 30 ? style.width - GUTTER : 30;
    wf_text_addf(out, "  rank %-*u", GUTTER - 6, rank);
    size_t mark = put_cells(out, weft_schedule_rank(s, rank), place, room, &width);
    wf_text_addc(out, '\n');
    if (p == NULL)
        return;
    wf_text_addf(out, "%*s", (int)(mark + GUTTER + 1), "");
    if (style.colour)
        wf_text_adds(out, "\033[1;31m");
    for (size_t i = 0; i < width; i++)
        wf_text_addc(out, '^');
    wf_text_addf(out, " %s", p->text);
    if (style.colour)
        wf_text_adds(out, "\033[0m");
    wf_text_addc(out, '\n');
}

static const struct wf_annotation *annotation_at(const struct wf_annotation *p, size_t n,
                                                 uint32_t rank)
{
    for (size_t i = 0; i < n; i++)
        if (p[i].rank == rank)
            return &p[i];
    return NULL;
}

void wf_draw_annotations(struct wf_text *out, const struct weft_schedule *s,
                         const struct wf_annotation *annotations, size_t n,
                         struct weft_text_style style)
{
    uint32_t n_ranks = weft_schedule_placement(s)->n_ranks;
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        const struct wf_annotation *here = annotation_at(annotations, n, rank);
        bool near = here != NULL;
        for (size_t i = 0; !near && i < n; i++)
            near = rank + ROWS_AROUND >= annotations[i].rank &&
                   rank <= annotations[i].rank + ROWS_AROUND;
        if (near)
            put_row(out, s, rank, here, here != NULL ? here->position : annotations[0].position,
                    style);
    }
}
