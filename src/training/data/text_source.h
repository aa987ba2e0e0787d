/* Reads text: files, JSON records and folders, as one sequence of documents.
 *
 *     a text file     one document.  A byte order mark is removed; CR LF becomes LF.
 *     JSON lines      one document per line: see text_records.h
 *     a JSON file     one document per element of an array, or one object
 *     a folder        all files in the folder and its subfolders, in byte order of their names;
 *                     names that start with a dot are skipped, and binary files are counted and
 *                     skipped
 *     "-"             standard input: text or JSON
 *
 * All of them may be compressed.  The content decides what a file is, not its name; a file
 * whose name ends in .jsonl, .ndjson or .json must be JSON.  Empty files are skipped.  Text is
 * read in segments, so the memory use is bounded for files of any size. */
#ifndef TRAINING_DATA_TEXT_SOURCE_H
#define TRAINING_DATA_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "training/unpack/unpack.h"
#include "weft/status.h"

enum wf_text_kind {
    WF_TEXT_UNKNOWN, /* a pipe: the kind is known when it is read */
    WF_TEXT_PLAIN,
    WF_TEXT_JSON_LINES,
    WF_TEXT_JSON,   /* an array of objects, or objects that may span lines */
    WF_TEXT_BINARY, /* not text */
};

enum wf_text_format {
    WF_TEXT_FORMAT_AUTO, /* the content decides */
    WF_TEXT_FORMAT_TEXT, /* every file is plain text */
    WF_TEXT_FORMAT_JSON, /* every file is JSON */
};

/* How files are read.  A zeroed struct has the defaults. */
struct wf_text_options {
    enum wf_text_format format;
    const char *field; /* borrowed: field of the text in a record; NULL: see text_records.h */
    bool skip_bad;     /* count and skip bad records instead of returning an error */
};

struct wf_text_file {
    char *path;          /* owned */
    uint64_t begin, end; /* range of bytes to read; of a pipe or compressed file, to the end */
    enum wf_text_kind kind;
};

struct wf_text_list {
    struct wf_text_file *at; /* owned */
    size_t n, cap;
    uint64_t bytes;    /* total size of all files whose size is known */
    uint64_t n_binary; /* binary files of folders, which are skipped */
    struct wf_text_options options;
};

/* Lists all files of the inputs.  Returns WEFT_DATA if a file does not exist, if an input or a
 * compressed file is not text, or if there is no text.  The caller calls wf_text_list_release()
 * on success and on error. */
enum weft_status wf_text_list_init(struct wf_text_list *list, const char *const *inputs,
                                   size_t n_inputs, const struct wf_text_options *options,
                                   struct weft_error *err);
void wf_text_list_release(struct wf_text_list *list);

/* Returns true if all files can be read more than once. */
bool wf_text_list_rereadable(const struct wf_text_list *list);

/* Counts the documents.  Stops at `limit`.  The list must be readable more than once. */
enum weft_status wf_text_list_count(const struct wf_text_list *list, uint64_t limit,
                                    uint64_t *out, struct weft_error *err);

/* Splits a list that contains only one text file into two documents.  The second document
 * begins with the first line that starts after the fraction `fraction` of the bytes. */
enum weft_status wf_text_list_split(struct wf_text_list *list, double fraction,
                                    struct weft_error *err);

struct wf_text_found {
    enum wf_text_kind kind;
    const char *what; /* describes binary data; a literal */
    bool empty;       /* the content has no bytes */
    bool parquet;
};

/* Finds the kind of a file by its first bytes. */
enum weft_status wf_text_find_kind(const char *path, struct wf_stream *s,
                                   enum wf_text_format format, struct wf_text_found *out,
                                   struct weft_error *err);

/* Returns the name of a file in messages. */
const char *wf_text_name(const struct wf_text_file *file);

/* -- segments ------------------------------------------------------------------------------ */

/* A part of a text document, or one or more complete JSON records. */
struct wf_text_segment {
    char *text; /* owned */
    size_t len, cap;
    const struct wf_text_file *file; /* borrowed from the list */
    enum wf_text_kind kind;          /* of the file */
    uint64_t line;        /* number of the segment's first line in the file; the first is 1 */
    bool begins_document; /* true for the first segment of a text file; unused for JSON */
    bool ends_document;   /* true for the last segment of a text file; unused for JSON */
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
    struct wf_stream *in; /* owned; NULL between files */
    enum wf_text_kind kind;
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

#endif
