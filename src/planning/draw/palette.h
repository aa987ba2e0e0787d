/* Colours.  One for each kind, apart for all kinds of eyes, light enough for dark text; the stages
 * of a rank are shades of them. */
#ifndef PLANNING_DRAW_PALETTE_H
#define PLANNING_DRAW_PALETTE_H

#include <stdint.h>

enum { WEFT_SHADES = 8 };

/* What a thing that is not an action is painted with. */
enum weft_ink {
    WEFT_INK_PAPER,
    WEFT_INK_IDLE, /* time in which nothing runs */
    WEFT_INK_GRID,
    WEFT_INK_EDGE, /* around swatches */
    WEFT_INK_SOFT, /* text of less weight */
    WEFT_INK_TEXT,
    WEFT_INK_CELL, /* text on an action: a page that is dark leaves it as it is */
    WEFT_N_INKS
};

uint32_t weft_ink_colour(enum weft_ink ink); /* 0xRRGGBB */

/* 0xRRGGBB of a kind in a shade, and of its bands. */
uint32_t weft_kind_colour(unsigned kind, unsigned shade);
uint32_t weft_band_colour(unsigned kind);

/* The shade of a rank's chunk, when there are `n_chunks`. */
unsigned weft_chunk_shade(uint32_t chunk, uint32_t n_chunks);

#endif
