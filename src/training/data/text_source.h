/* Reads text: files, JSON lines and folders, as one sequence of documents.
 *
 *     a text file          one document
 *     a file *.jsonl       one document per line, its field "text"
 *     a folder             all files in it and below, in byte order of their names, without names
 *                          that start with a dot
 *
 * Empty files are skipped.  Text is read in segments, so files of any size need bounded memory.
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
    uint64_t begin, end; /* the bytes to read; of a pipe, up to UINT64_MAX */
    bool json;
};

struct wf_text_list {
    struct wf_text_file *at; /* owned */
    size_t n, cap;
    uint64_t bytes; /* of all files, as far as known */
};

/* Lists all files.  Returns WEFT_DATA if a file does not exist or there is no text at all.
 * wf_text_list_release() cleans up after every outcome. */
enum weft_status wf_text_list_init(struct wf_text_list *list, const char *const *inputs,
                                   size_t n_inputs, struct weft_error *err);
void wf_text_list_release(struct wf_text_list *list);

/* Counts the documents, up to `limit`. */
enum weft_status wf_text_list_count(const struct wf_text_list *list, uint64_t limit,
                                    uint64_t *out, struct weft_error *err);

/* Splits the list's only document, a text file, into two: at the first line that starts after this
 * fraction of its bytes. */
enum weft_status wf_text_list_split(struct wf_text_list *list, double fraction,
                                    struct weft_error *err);

/* -- segments --------------------------------------------------------------------------------- */

/* A part of a document, or whole lines of JSON. */
struct wf_text_segment {
    char *text; /* owned */
    size_t len, cap;
    const struct wf_text_file *file; /* borrowed: from the list */
    uint64_t line;                   /* number of its first line, from 1 */
    bool ends_document;              /* text only */
};

/* Returns a length at which a text that continues can be cut; 0: none yet. */
typedef size_t wf_text_boundary_fn(const void *ctx, const char *text, size_t len);

struct wf_text_reader {
    const struct wf_text_list *list; /* borrowed */
    wf_text_boundary_fn *cut;
    const void *cut_ctx;  /* borrowed */
    size_t segment_bytes; /* approximate size of a segment */
    size_t next_file;
    FILE *in;      /* owned; NULL between files */
    uint64_t at;   /* bytes read of it */
    uint64_t line; /* of the next segment */
    char *rest;    /* owned: text that was read after the last cut */
    size_t n_rest, rest_cap;
};

void wf_text_reader_init(struct wf_text_reader *r, const struct wf_text_list *list,
                         wf_text_boundary_fn *cut, const void *cut_ctx);
void wf_text_reader_release(struct wf_text_reader *r);

/* Reads the next segment into *segment, whose memory is reused; *more is false at the end.  Returns
 * WEFT_DATA with file and line if a file cannot be read or is not text. */
enum weft_status wf_text_reader_next(struct wf_text_reader *r, struct wf_text_segment *segment,
                                     bool *more, struct weft_error *err);

/* Calls `on_document` for the text of each document of a segment of JSON lines. */
typedef enum weft_status wf_text_document_fn(void *ctx, const char *text, size_t len,
                                             struct weft_error *err);
enum weft_status wf_text_parse_jsonl(const struct wf_text_segment *segment,
                                     wf_text_document_fn *on_document, void *ctx,
                                     struct weft_error *err);

#endif
