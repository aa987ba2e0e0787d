/* page.js and page.css as bytes; the build makes them from the files (cmake/embed.cmake). */
#ifndef PLANNING_DRAW_PAGE_PRIV_H
#define PLANNING_DRAW_PAGE_PRIV_H

#include <stddef.h>

extern const unsigned char weft_page_script[], weft_page_style[];
extern const size_t weft_page_script_len, weft_page_style_len;

#endif
