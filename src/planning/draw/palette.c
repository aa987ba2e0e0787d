/* The colours of all pictures. */
#include "planning/draw/palette.h"

#include "weft/schedule.h"

uint32_t wf_ink_colour(enum wf_ink ink)
{
    static const uint32_t colours[WF_N_INKS] = {
        [WF_INK_BACKGROUND] = 0xffffff, [WF_INK_IDLE] = 0xececec,  [WF_INK_GRID] = 0xd4d4d4,
        [WF_INK_EDGE] = 0x9a9a9a,       [WF_INK_MUTED] = 0x5c5c5c, [WF_INK_TEXT] = 0x1a1a1a,
        [WF_INK_CELL] = 0x111111,
    };
    return colours[ink];
}

/* The first and the last shade of each kind.  They are based on the Okabe-Ito colours, which
 * people with common kinds of colour blindness can distinguish. */
static const struct {
    uint32_t first, last, band;
} hues[WEFT_N_ACT_KINDS] = {
    [WEFT_ACT_F] = {0x6aaee0, 0xd3e7f7, 0x20609a},
    [WEFT_ACT_B] = {0x4fbf98, 0xc9ecdf, 0x0b6b4c},
    [WEFT_ACT_I] = {0xf2b84b, 0xfce8c2, 0xa86600},
    [WEFT_ACT_W] = {0xd993bd, 0xf4dcea, 0x8d3f70},
    [WEFT_ACT_SEND_F] = {0x7d93b8, 0x7d93b8, 0x44597c},
    [WEFT_ACT_RECV_F] = {0xb4c3dc, 0xb4c3dc, 0x44597c},
    [WEFT_ACT_SEND_B] = {0x8fae8b, 0x8fae8b, 0x4c6b48},
    [WEFT_ACT_RECV_B] = {0xc4d9c1, 0xc4d9c1, 0x4c6b48},
    [WEFT_ACT_REDUCE_GRAD] = {0xb3a798, 0xb3a798, 0x5f5548},
    [WEFT_ACT_UNSHARD] = {0xc9c2b8, 0xc9c2b8, 0x5f5548},
    [WEFT_ACT_RESHARD] = {0xc9c2b8, 0xc9c2b8, 0x5f5548},
    [WEFT_ACT_WAIT_SEND_F] = {0xe3ded7, 0xe3ded7, 0x5f5548},
    [WEFT_ACT_WAIT_SEND_B] = {0xe3ded7, 0xe3ded7, 0x5f5548},
    [WEFT_ACT_WAIT_REDUCE_GRAD] = {0xe3ded7, 0xe3ded7, 0x5f5548},
};

static uint32_t blend(uint32_t a, uint32_t b, unsigned part, unsigned whole)
{
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        uint32_t x = a >> shift & 0xff, y = b >> shift & 0xff;
        out |= (x * (whole - part) + y * part + whole / 2) / whole << shift;
    }
    return out;
}

uint32_t wf_kind_colour(unsigned kind, unsigned shade)
{
    return blend(hues[kind].first, hues[kind].last, shade, WF_SHADES - 1);
}

uint32_t wf_band_colour(unsigned kind)
{
    return hues[kind].band;
}

unsigned wf_chunk_shade(uint32_t chunk, uint32_t n_chunks)
{
    if (n_chunks < 2)
        return 1;
    uint32_t last = n_chunks == 2 ? WF_SHADES - 2 : WF_SHADES - 1;
    return chunk >= n_chunks ? last : (unsigned)((uint64_t)chunk * last / (n_chunks - 1));
}
