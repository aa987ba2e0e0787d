/* The output of a command: files that are written atomically, and the abilities of a
 * terminal. */
#ifndef TERMINAL_OUTPUT_H
#define TERMINAL_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "planning/draw/timeline.h"
#include "weft/status.h"

/* The output of a command: standard output, or a file that is written atomically. */
struct wf_output {
    FILE *out;
    const char *path; /* borrowed; NULL means standard output */
    char *unfinished; /* owned: the temporary name */
    int lock;         /* while `unfinished` is not NULL: its lock (base/temporary.h) */
    char *target;     /* owned: the final name */
    bool quiet;       /* true: do not print "wrote FILE" */
};

/* Returns WEFT_USAGE unless `path` ends in one of `endings`, such as ".csv .json".  A pipe or
 * device may have any name. */
enum weft_status wf_output_check(const char *path, const char *endings, struct weft_error *err);

/* Opens a file, or standard output if `path` is NULL or "-". */
enum weft_status wf_output_open(struct wf_output *s, const char *path, struct weft_error *err);

/* Closes the output.  Keeps the file and prints "wrote FILE" only if `st` is WEFT_OK and all
 * writes succeeded.  Returns `st`, or the error of a failed write. */
enum weft_status wf_output_close(struct wf_output *s, enum weft_status st,
                                 struct weft_error *err);

/* Returns how to draw on `out`.  `when` is "auto" (or NULL), "always" or "never".  A `width` of
 * 0 means the width of the terminal. */
struct weft_text_style wf_style_for(FILE *out, const char *when, uint32_t width);

#endif
