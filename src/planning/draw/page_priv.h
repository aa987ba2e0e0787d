/* The bytes of page.js and page.css, which the build embeds (cmake/embed.cmake). */
#ifndef PLANNING_DRAW_PAGE_PRIV_H
#define PLANNING_DRAW_PAGE_PRIV_H

#include <stddef.h>

extern const unsigned char wf_page_script[], wf_page_style[];
extern const size_t wf_page_script_len, wf_page_style_len;

#endif
