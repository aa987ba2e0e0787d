/* Texts to learn from: files, JSON lines and folders, as one row of documents.
 *
 *     a text file          one document
 *     a file *.jsonl       a document a line, its field "text"
 *     a folder             all files in it and below, in the order of the bytes of their names;
 *                          names that begin with a dot are left out
 *
 * An empty file is no document.  Text comes in blocks, so that files of any size are read in
 * bounded memory.
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
    uint64_t begin, end; /* bytes of it that are read; of a pipe, up to UINT64_MAX */
    bool json;
};

struct wf_text_list {
    struct wf_text_file *at; /* owned */
    size_t n, cap;
    uint64_t bytes; /* of all of them, as far as it is known */
};

/* All files, sorted out; one that is not there, and folders without any text, are WEFT_DATA.
 * wf_text_list_release() cleans up after every outcome. */
enum weft_status wf_text_list_init(struct wf_text_list *list, const char *const *inputs,
                                   size_t n_inputs, struct weft_error *err);
void wf_text_list_release(struct wf_text_list *list);

/* The number of documents, or `limit` when there are more: lines are counted no further. */
enum weft_status wf_text_list_count(const struct wf_text_list *list, uint64_t limit,
                                    uint64_t *out, struct weft_error *err);

/* Makes two documents of the list's only one, a text file: cut at the first line that begins
 * behind this fraction of its bytes. */
enum weft_status wf_text_list_split(struct wf_text_list *list, double fraction,
                                    struct weft_error *err);

/* -- blocks --------------------------------------------------------------------------------- */

/* Part of a document, or whole lines of JSON. */
struct wf_text_segment {
    char *text; /* owned */
    size_t len, cap;
    const struct wf_text_file *file; /* borrowed: from the list */
    uint64_t line;                   /* number of its first line, from 1 */
    bool ends_document;              /* text only */
};

/* Where to cut text that goes on behind its end; 0: not yet. */
typedef size_t wf_text_boundary_fn(const void *ctx, const char *text, size_t len);

struct wf_text_reader {
    const struct wf_text_list *list; /* borrowed */
    wf_text_boundary_fn *cut;
    const void *cut_ctx;  /* borrowed */
    size_t segment_bytes; /* how large a segment is, about */
    size_t next_file;
    FILE *in;      /* owned; NULL between files */
    uint64_t at;   /* bytes read of it */
    uint64_t line; /* of the next segment */
    char *rest;    /* owned: read, but behind the last cut */
    size_t n_rest, rest_cap;
};

void wf_text_reader_init(struct wf_text_reader *r, const struct wf_text_list *list,
                         wf_text_boundary_fn *cut, const void *cut_ctx);
void wf_text_reader_release(struct wf_text_reader *r);

/* The next segment into *segment, whose memory is used again; *more is false when there is none.
 * Files that cannot be read, or are no text, are WEFT_DATA, with file and line. */
enum weft_status wf_text_reader_next(struct wf_text_reader *r, struct wf_text_segment *segment,
                                     bool *more, struct weft_error *err);

/* Calls `on_document` for the text of each document of a segment of JSON lines. */
typedef enum weft_status wf_text_document_fn(void *ctx, const char *text, size_t len,
                                             struct weft_error *err);
enum weft_status wf_text_parse_jsonl(const struct wf_text_segment *segment,
                                     wf_text_document_fn *on_document, void *ctx,
                                     struct weft_error *err);

#endif
