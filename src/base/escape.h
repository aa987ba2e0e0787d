/* Escapes text for markup and scripts. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stdio.h>

/* Prints `text` as character data or as an attribute value of XML or HTML. */
void wf_escape_markup(FILE *out, const char *text);

/* Prints `text` as a JSON string with its quotes; safe inside an HTML script element. */
void wf_escape_script(FILE *out, const char *text);

#endif
