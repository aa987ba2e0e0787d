/* Text inside of other languages. */
#ifndef PLANNING_DRAW_ESCAPE_H
#define PLANNING_DRAW_ESCAPE_H

#include <stdio.h>

/* As text or attribute of XML and HTML. */
void wf_escape_markup(FILE *out, const char *text);

/* As a JSON string, with its quotes, that may stand inside of an HTML script element. */
void wf_escape_script(FILE *out, const char *text);

#endif
