/* Parses JSON records into documents.
 *
 *     {"text": "..."}                              the text; --field names another field
 *     {"messages": [{"role": ..., "content": ...}]}  a conversation
 *     {"prompt": "...", "completion": "..."}       a text of which only the second part counts
 */
#ifndef TRAINING_DATA_TEXT_RECORDS_H
#define TRAINING_DATA_TEXT_RECORDS_H

#include <jansson.h>

#include "training/data/text_source.h"

struct wf_text_span {
    const char *at; /* borrowed during the call */
    size_t len;
};

enum wf_document_kind { WF_DOCUMENT_TEXT, WF_DOCUMENT_PAIR, WF_DOCUMENT_CHAT };

struct wf_document {
    enum wf_document_kind kind;
    struct wf_text_span text;       /* of WF_DOCUMENT_TEXT; the prompt of WF_DOCUMENT_PAIR */
    struct wf_text_span completion; /* of WF_DOCUMENT_PAIR */
    json_t *record;                 /* borrowed; of WF_DOCUMENT_CHAT */
};

/* Receives a document.  WEFT_DATA means that the document is bad; the message does not name the
 * file. */
typedef enum weft_status wf_document_fn(void *ctx, const struct wf_document *document,
                                        struct weft_error *err);

/* Bad records that were skipped. */
struct wf_bad_records {
    uint64_t n;
    struct weft_error first; /* of the first one; valid if n > 0 */
};

/* Calls `on_document` for each record of a segment of JSON.  A record that is not valid, or
 * that on_document refuses with WEFT_DATA, is an error with the file and the line; with
 * options->skip_bad it is added to *bad instead. */
enum weft_status wf_text_parse_records(const struct wf_text_segment *segment,
                                       const struct wf_text_options *options,
                                       wf_document_fn *on_document, void *ctx,
                                       struct wf_bad_records *bad, struct weft_error *err);

/* Calls `on_text` for each text of a document: of a conversation, the content of each message.
 * */
enum weft_status wf_document_visit(const struct wf_document *document,
                                   enum weft_status (*on_text)(void *ctx,
                                                               struct wf_text_span text,
                                                               struct weft_error *err),
                                   void *ctx, struct weft_error *err);

/* Returns the length of the complete values at the start of JSON text that continues, or 0 if
 * there is none. */
size_t wf_text_cut_json(const char *text, size_t len);

#endif
