/* The colours of all pictures: one per kind of action, distinguishable for colour-blind readers and
 * light enough for dark text.  The stages of a rank are shades of it. */
#ifndef PLANNING_DRAW_PALETTE_H
#define PLANNING_DRAW_PALETTE_H

#include <stdint.h>

enum { WF_SHADES = 8 };

/* The colours of everything but actions. */
enum wf_ink {
    WF_INK_BACKGROUND,
    WF_INK_IDLE, /* time in which nothing runs */
    WF_INK_GRID,
    WF_INK_EDGE,  /* around swatches */
    WF_INK_MUTED, /* less important text */
    WF_INK_TEXT,
    WF_INK_CELL, /* text on an action: the same in dark mode */
    WF_N_INKS
};

/* Returns a colour as 0xRRGGBB. */
uint32_t wf_ink_colour(enum wf_ink ink);

/* Return the colour of a kind in a shade, and of its bands, as 0xRRGGBB. */
uint32_t wf_kind_colour(unsigned kind, unsigned shade);
uint32_t wf_band_colour(unsigned kind);

/* Returns the shade of a chunk of a rank with `n_chunks` chunks. */
unsigned wf_chunk_shade(uint32_t chunk, uint32_t n_chunks);

#endif
