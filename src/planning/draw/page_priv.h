/* page.js and page.css as bytes; the build makes them from the files (cmake/embed.cmake). */
#ifndef PLANNING_DRAW_PAGE_PRIV_H
#define PLANNING_DRAW_PAGE_PRIV_H

#include <stddef.h>

extern const unsigned char wf_page_script[], wf_page_style[];
extern const size_t wf_page_script_len, wf_page_style_len;

#endif
