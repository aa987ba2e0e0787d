/* The colours of all pictures.  Each kind of action has one colour.  Colour-blind readers
 * can distinguish these colours, and all of them are light enough for dark text.  The stages
 * of a rank are shades of the colour. */
#ifndef PLANNING_DRAW_PALETTE_H
#define PLANNING_DRAW_PALETTE_H

#include <stdint.h>

enum { WF_SHADES = 8 };

/* The colours of all parts of a picture except actions. */
enum wf_ink {
    WF_INK_BACKGROUND,
    WF_INK_IDLE, /* time in which the rank runs no action */
    WF_INK_GRID,
    WF_INK_EDGE,  /* border of the swatches in the legend */
    WF_INK_MUTED, /* less important text */
    WF_INK_TEXT,
    WF_INK_CELL, /* text on an action; dark mode uses the same colour */
    WF_N_INKS
};

/* Returns a colour as 0xRRGGBB. */
uint32_t wf_ink_colour(enum wf_ink ink);

/* Returns the colour of a kind in a given shade as 0xRRGGBB. */
uint32_t wf_kind_colour(unsigned kind, unsigned shade);
/* Returns the colour of a kind's bands as 0xRRGGBB. */
uint32_t wf_band_colour(unsigned kind);

/* Returns the shade of a chunk on a rank that has `n_chunks` chunks. */
unsigned wf_chunk_shade(uint32_t chunk, uint32_t n_chunks);

#endif
