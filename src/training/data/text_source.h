/* Reads text: files, JSON lines and folders, as one sequence of documents.
 *
 *     a text file          one document
 *     a file *.jsonl       one document per line: the field "text" of a JSON object
 *     a folder             all files in the folder and its subfolders, in byte order of their
 *                          names; names that start with a dot are skipped
 *
 * Empty files are skipped.  Text is read in segments, so the memory use is bounded for
 * files of any size.
 */
#ifndef TRAINING_DATA_TEXT_SOURCE_H
#define TRAINING_DATA_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/status.h"

struct wf_text_file {
    char *path;          /* owned */
    uint64_t begin, end; /* range of bytes to read; for a pipe, end is UINT64_MAX */
    bool json;
};

struct wf_text_list {
    struct wf_text_file *at; /* owned */
    size_t n, cap;
    uint64_t bytes; /* total size of all files whose size is known */
};

/* Lists all files of the inputs.  Returns WEFT_DATA if a file does not exist or there is no
 * text.  The caller calls wf_text_list_release() on success and on error. */
enum weft_status wf_text_list_init(struct wf_text_list *list, const char *const *inputs,
                                   size_t n_inputs, struct weft_error *err);
void wf_text_list_release(struct wf_text_list *list);

/* Counts the documents.  Stops at `limit`. */
enum weft_status wf_text_list_count(const struct wf_text_list *list, uint64_t limit,
                                    uint64_t *out, struct weft_error *err);

/* Splits a list that contains only one text file into two documents.  The second document
 * begins with the first line that starts after the fraction `fraction` of the bytes. */
enum weft_status wf_text_list_split(struct wf_text_list *list, double fraction,
                                    struct weft_error *err);

/* -- segments ------------------------------------------------------------------------------ */

/* A part of a text document, or one or more complete JSON lines. */
struct wf_text_segment {
    char *text; /* owned */
    size_t len, cap;
    const struct wf_text_file *file; /* borrowed from the list */
    uint64_t line;      /* number of the segment's first line in the file; the first is 1 */
    bool ends_document; /* true for the last segment of a text file; unused for JSON lines */
};

/* Returns a length at which a text can be cut if more text follows, or 0 if there is no such
 * length yet. */
typedef size_t wf_text_boundary_fn(const void *ctx, const char *text, size_t len);

struct wf_text_reader {
    const struct wf_text_list *list; /* borrowed */
    wf_text_boundary_fn *cut;
    const void *cut_ctx;  /* borrowed */
    size_t segment_bytes; /* approximate size of a segment */
    size_t next_file;
    FILE *in;      /* owned; NULL between files */
    uint64_t at;   /* number of bytes read from `in` */
    uint64_t line; /* line number of the next segment */
    char *rest;    /* owned: text after the last cut, which was read but not returned */
    size_t n_rest, rest_cap;
};

/* Prepares to read all files of a list.  `cut` returns where a text may be cut. */
void wf_text_reader_init(struct wf_text_reader *r, const struct wf_text_list *list,
                         wf_text_boundary_fn *cut, const void *cut_ctx);
void wf_text_reader_release(struct wf_text_reader *r);

/* Reads the next segment into *segment and reuses the memory of *segment.  Sets *more to false
 * at the end of the text.  Returns WEFT_DATA if a file cannot be read or is not text; the
 * message names the file and the line. */
enum weft_status wf_text_reader_next(struct wf_text_reader *r, struct wf_text_segment *segment,
                                     bool *more, struct weft_error *err);

typedef enum weft_status wf_text_document_fn(void *ctx, const char *text, size_t len,
                                             struct weft_error *err);

/* Calls `on_document` with the text of each document in a segment of JSON lines. */
enum weft_status wf_text_parse_jsonl(const struct wf_text_segment *segment,
                                     wf_text_document_fn *on_document, void *ctx,
                                     struct weft_error *err);

#endif
