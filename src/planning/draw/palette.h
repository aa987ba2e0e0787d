/* Colours.  One for each kind, apart for all kinds of eyes, light enough for dark text; the stages
 * of a rank are shades of them. */
#ifndef PLANNING_DRAW_PALETTE_H
#define PLANNING_DRAW_PALETTE_H

#include <stdint.h>

enum { WF_SHADES = 8 };

/* What a thing that is not an action is painted with. */
enum wf_ink {
    WF_INK_BACKGROUND,
    WF_INK_IDLE, /* time in which nothing runs */
    WF_INK_GRID,
    WF_INK_EDGE,  /* around swatches */
    WF_INK_MUTED, /* text of less weight */
    WF_INK_TEXT,
    WF_INK_CELL, /* text on an action: a page that is dark leaves it as it is */
    WF_N_INKS
};

uint32_t wf_ink_colour(enum wf_ink ink); /* 0xRRGGBB */

/* 0xRRGGBB of a kind in a shade, and of its bands. */
uint32_t wf_kind_colour(unsigned kind, unsigned shade);
uint32_t wf_band_colour(unsigned kind);

/* The shade of a rank's chunk, when there are `n_chunks`. */
unsigned wf_chunk_shade(uint32_t chunk, uint32_t n_chunks);

#endif
