/* Writes the shards of a corpus.  Several threads encode segments of the texts.  The tokens are
 * written in the order of the documents, so the output does not depend on the threads. */
#include "training/data/token_corpus.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/input.h"
#include "base/json.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "training/data/chat_tokens.h"
#include "training/data/shard.h"
#include "training/data/text_workers.h"

enum { PATH = 4096 };

static const uint64_t no_document = UINT64_MAX;

/* One split of the corpus: training or validation. */
struct split {
    const char *name;               /* "train" or "val" */
    struct wf_shard_writer *writer; /* owned; NULL between shards */
    uint64_t n_open;                /* tokens in the open shard */
    struct wf_corpus_split part;
};

struct corpus {
    const struct wf_corpus_options *options;    /* borrowed */
    const struct wf_text_options *text_options; /* borrowed: of the list */
    uint64_t hash;                              /* of the tokenizer */
    bool single_file, created_folder;
    bool new_tokenizer;           /* the folder had no tokenizer.json */
    struct wf_encoder **encoders; /* owned: one per worker */
    struct split train, val;
    uint64_t n_documents;  /* number of documents written completely */
    uint64_t val_document; /* number of a document that is always used for validation */
    uint64_t bytes;
    struct wf_bad_records bad;
};

/* -- names --------------------------------------------------------------------------------- */

static void shard_path(const struct corpus *c, const struct split *split, uint32_t i,
                       char out[PATH])
{
    if (c->single_file)
        snprintf(out, PATH, "%s", c->options->out);
    else
        snprintf(out, PATH, "%s/%s-%06" PRIu32 ".bin", c->options->out, split->name, i);
}

static void path_in(const struct corpus *c, const char *name, char out[PATH])
{
    snprintf(out, PATH, "%s/%s", c->options->out, name);
}

/* Returns an error if the folder contains shards, because old and new shards would be mixed. */
static enum weft_status check_folder(const char *path, struct weft_error *err)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    enum weft_status st = WEFT_OK;
    if (dir == NULL && errno == ENOTDIR)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.240s is a file; use a new folder, or a name that ends in .bin",
                         path);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_IO, "%.240s: %s", path, strerror(errno));
    while (st == WEFT_OK && (entry = readdir(dir)) != NULL)
        if (wf_path_ends_in(entry->d_name, ".bin"))
            st = WEFT_FAIL(
                err, WEFT_USAGE,
                "%.240s already has token shards; remove them, or use another folder", path);
    closedir(dir);
    return st;
}

static enum weft_status open_folder(struct corpus *c, struct weft_error *err)
{
    const char *out = c->options->out;
    if (strlen(out) > PATH - 64)
        return WEFT_FAIL(err, WEFT_USAGE, "%.240s...: the path is too long", out);
    if (c->single_file)
        return WEFT_OK;

    char tokenizer[PATH];
    path_in(c, "tokenizer.json", tokenizer);
    c->new_tokenizer = access(tokenizer, F_OK) != 0;

    if (mkdir(out, 0777) == 0) {
        c->created_folder = true;
        return WEFT_OK;
    }
    if (errno != EEXIST)
        return WEFT_FAIL(err, WEFT_IO, "cannot create the folder %.240s: %s", out,
                         strerror(errno));
    return check_folder(out, err);
}

/* Removes what was written.  The shard in progress, too: it has its final name if only the sync
 * of the folder failed.  The folder had no shards before.  A single file may be an old one. */
static void remove_all(const struct corpus *c)
{
    char path[PATH];
    const struct split *splits[] = {&c->train, &c->val};
    if (c->single_file)
        return;
    for (size_t r = 0; r < WEFT_LEN(splits); r++)
        for (uint32_t i = 0; i <= splits[r]->part.shards; i++) {
            shard_path(c, splits[r], i, path);
            remove(path);
        }
    path_in(c, "meta.json", path);
    remove(path);
    if (c->new_tokenizer) {
        path_in(c, "tokenizer.json", path);
        remove(path);
        path_in(c, "tokenizer_config.json", path);
        remove(path);
    }
    if (c->created_folder)
        rmdir(c->options->out);
}

/* -- writing ------------------------------------------------------------------------------- */

static enum weft_status finish_shard(struct split *split, struct weft_error *err)
{
    if (split->writer == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_shard_writer_finish(split->writer, err));
    wf_shard_writer_free(split->writer);
    split->writer = NULL;
    split->n_open = 0;
    split->part.shards++;
    return WEFT_OK;
}

/* Adds tokens to the open shard.  A token that does not count is stored in a job as its bitwise
 * complement, which is negative. */
static enum weft_status add_tokens(struct split *split, const int32_t *at, size_t n,
                                   struct weft_error *err)
{
    enum { PIECE = 4096 };
    int32_t tokens[PIECE];
    bool counted[PIECE];
    while (n > 0) {
        size_t now = wf_size_min(n, PIECE);
        for (size_t i = 0; i < now; i++) {
            counted[i] = at[i] >= 0;
            tokens[i] = counted[i] ? at[i] : ~at[i];
            split->part.counted += counted[i];
        }
        WEFT_TRY(wf_shard_writer_add_masked(split->writer, tokens, counted, now, err));
        at += now;
        n -= now;
    }
    return WEFT_OK;
}

static enum weft_status write_tokens(const struct corpus *c, struct split *split,
                                     const int32_t *at, size_t n, struct weft_error *err)
{
    uint32_t limit = c->single_file ? INT32_MAX : c->options->shard_tokens;
    split->part.tokens += n;
    while (n > 0) {
        char path[PATH];
        if (split->writer == NULL) {
            shard_path(c, split, split->part.shards, path);
            WEFT_TRY(wf_shard_writer_new(path, weft_tokenizer_n_vocab(c->options->tokenizer),
                                         &split->writer, err));
            wf_shard_writer_set_hash(split->writer, c->hash);
        }

        size_t now = wf_size_min(n, limit - split->n_open);
        if (c->single_file && now < n)
            return WEFT_FAIL(err, WEFT_DATA,
                             "more than %" PRId32
                             " tokens do not fit into one file; use a folder",
                             INT32_MAX);

        WEFT_TRY(add_tokens(split, at, now, err));
        split->n_open += now;
        at += now;
        n -= now;

        if (split->n_open == limit && !c->single_file)
            WEFT_TRY(finish_shard(split, err));
    }
    return WEFT_OK;
}

/* Returns true if the document with this number is used for validation.  The choice is
 * pseudo-random with probability `val`; document 0 is never chosen. */
static bool is_val_document(double val, uint64_t document)
{
    const uint64_t seed = 20240520, stream = 7;
    double u = (double)(wf_random_u64(seed, stream, document) >> 11) * 0x1p-53;
    return document > 0 && u < val;
}

static struct split *split_of(struct corpus *c, uint64_t document)
{
    return document == c->val_document || is_val_document(c->options->val, document)
               ? &c->val
               : &c->train;
}

static enum weft_status consume_job(void *ctx, const struct wf_text_job *job,
                                    struct weft_error *err)
{
    struct corpus *c = ctx;
    size_t at = 0;
    c->bytes += job->text_bytes;
    if (c->bad.n == 0)
        c->bad.first = job->bad.first;
    c->bad.n += job->bad.n;
    for (size_t i = 0; i < job->doc_ends.len; i++) {
        struct split *split = split_of(c, c->n_documents++);
        size_t end = (size_t)job->doc_ends.at[i];
        WEFT_TRY(write_tokens(c, split, job->tokens.at + at, end - at, err));
        split->part.documents++;
        at = end;
    }
    if (at == job->tokens.len)
        return WEFT_OK;
    return write_tokens(c, split_of(c, c->n_documents), job->tokens.at + at,
                        job->tokens.len - at, err);
}

/* -- encoding, on any thread --------------------------------------------------------------- */

struct encode_ctx {
    const struct weft_tokenizer *tokenizer;
    const struct wf_chat *chat; /* NULL: none */
    struct wf_encoder *encoder;
    struct wf_text_job *job;
    unsigned flags; /* WF_ENCODE_SPECIAL, or 0 */
};

static enum weft_status append_eot(const struct encode_ctx *t, struct weft_error *err)
{
    struct weft_tokens *tokens = &t->job->tokens, *doc_ends = &t->job->doc_ends;
    WEFT_TRY(wf_tokens_reserve(tokens, 1, err));
    WEFT_TRY(wf_tokens_reserve(doc_ends, 1, err));
    tokens->at[tokens->len++] = weft_tokenizer_eot(t->tokenizer);
    doc_ends->at[doc_ends->len++] = (int32_t)tokens->len;
    return WEFT_OK;
}

static enum weft_status encode_span(const struct encode_ctx *t, struct wf_text_span text,
                                    unsigned flags, struct weft_error *err)
{
    t->job->text_bytes += text.len;
    return wf_encoder_encode_part(t->encoder, text.at, text.len, flags | t->flags,
                                  &t->job->tokens, err);
}

/* Ends a document after each end token in the text, from token number `at` on. */
static enum weft_status split_documents(const struct encode_ctx *t, size_t at,
                                        struct weft_error *err)
{
    struct weft_tokens *tokens = &t->job->tokens, *doc_ends = &t->job->doc_ends;
    for (; t->flags != 0 && at < tokens->len; at++) {
        if (tokens->at[at] != weft_tokenizer_eot(t->tokenizer))
            continue;
        WEFT_TRY(wf_tokens_reserve(doc_ends, 1, err));
        doc_ends->at[doc_ends->len++] = (int32_t)at + 1;
    }
    return WEFT_OK;
}

/* Ends a document, unless its text ends with the end token. */
static enum weft_status end_document(const struct encode_ctx *t, size_t before,
                                     struct weft_error *err)
{
    const struct weft_tokens *tokens = &t->job->tokens, *doc_ends = &t->job->doc_ends;
    bool ended = tokens->len > before && doc_ends->len > 0 &&
                 (size_t)doc_ends->at[doc_ends->len - 1] == tokens->len;
    return ended ? WEFT_OK : append_eot(t, err);
}

/* Encodes a conversation.  The tokens remain as they were if it is bad. */
static enum weft_status encode_chat(const struct encode_ctx *t, json_t *record,
                                    struct weft_error *err)
{
    struct weft_tokens *tokens = &t->job->tokens;
    size_t before = tokens->len;
    if (t->chat == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the data has conversations (\"messages\"), but the tokenizer has no "
                         "chat template (chat_template.jinja or tokenizer_config.json)");
    WEFT_TRY(wf_tokens_reserve(&t->job->doc_ends, 1, err));
    enum weft_status st = wf_chat_tokens_add(t->chat, t->tokenizer, t->encoder, record, tokens,
                                             &t->job->text_bytes, err);
    if (st != WEFT_OK) {
        tokens->len = before;
        return st;
    }
    t->job->doc_ends.at[t->job->doc_ends.len++] = (int32_t)tokens->len;
    return WEFT_OK;
}

static enum weft_status encode_document(void *ctx, const struct wf_document *d,
                                        struct weft_error *err)
{
    const struct encode_ctx *t = ctx;
    struct weft_tokens *tokens = &t->job->tokens;
    if (d->kind == WF_DOCUMENT_CHAT)
        return encode_chat(t, d->record, err);
    size_t before = tokens->len;
    WEFT_TRY(encode_span(t, d->text, 0, err));
    if (d->kind == WF_DOCUMENT_PAIR) {
        for (size_t i = before; i < tokens->len; i++)
            tokens->at[i] = ~tokens->at[i];
        WEFT_TRY(encode_span(t, d->completion, WF_ENCODE_CONTINUES, err));
        return append_eot(t, err);
    }
    WEFT_TRY(split_documents(t, before, err));
    return end_document(t, before, err);
}

static enum weft_status encode_job(void *ctx, uint32_t worker, struct wf_text_job *job,
                                   struct weft_error *err)
{
    const struct corpus *c = ctx;
    struct encode_ctx t = {c->options->tokenizer, c->options->chat, c->encoders[worker], job,
                           c->options->special ? WF_ENCODE_SPECIAL : 0};
    unsigned continues = job->segment.begins_document ? 0 : WF_ENCODE_CONTINUES;
    job->tokens.len = job->doc_ends.len = 0;
    job->text_bytes = 0;
    if (job->segment.kind != WF_TEXT_PLAIN)
        return wf_text_parse_records(&job->segment, c->text_options, encode_document, &t,
                                     &job->bad, err);
    job->text_bytes = job->segment.len;
    WEFT_TRY(wf_encoder_encode_part(t.encoder, job->segment.text, job->segment.len,
                                    continues | t.flags, &job->tokens, err));
    WEFT_TRY(split_documents(&t, 0, err));
    return job->segment.ends_document ? end_document(&t, 0, err) : WEFT_OK;
}

static size_t cut(const void *ctx, const char *text, size_t len)
{
    return wf_tokenizer_boundary(ctx, text, len);
}

static void report_progress(void *ctx, uint64_t bytes)
{
    const struct corpus *c = ctx;
    if (c->options->progress != NULL)
        c->options->progress(c->options->ctx, bytes);
}

/* -- the whole corpus ---------------------------------------------------------------------- */

/* Sets val_document, so that at least one document is used for validation: the first document
 * for which is_val_document() is true, or the last document if there is none. */
static enum weft_status choose_val_document(struct corpus *c, struct wf_text_list *list,
                                            struct weft_error *err)
{
    const uint64_t limit = 10000000;
    uint64_t first = 1, n = 0;
    /* What can be read only once cannot be counted.  run() checks that there is a validation
     * document. */
    if (c->options->val == 0 || !wf_text_list_rereadable(list))
        return WEFT_OK;
    while (first < limit && !is_val_document(c->options->val, first))
        first++;
    WEFT_TRY(wf_text_list_count(list, first + 1, &n, err));
    if (n == 1) {
        WEFT_TRY(wf_text_list_split(list, 1 - c->options->val, err));
        n = 2;
    }
    c->val_document = n <= first ? n - 1 : first;
    return WEFT_OK;
}

static enum weft_status make_encoders(struct corpus *c, struct weft_error *err)
{
    c->encoders = calloc(c->options->n_threads, sizeof *c->encoders);
    if (c->encoders == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u threads", c->options->n_threads);
    for (uint32_t i = 0; i < c->options->n_threads; i++)
        WEFT_TRY(wf_encoder_new(c->options->tokenizer, &c->encoders[i], err));
    return WEFT_OK;
}

static enum weft_status run(struct corpus *c, const struct wf_text_list *list,
                            struct weft_error *err)
{
    struct wf_text_workers workers = {
        .n_threads = c->options->n_threads,
        .work = encode_job,
        .consume = consume_job,
        .progress = report_progress,
        .ctx = c,
    };
    struct wf_text_reader reader;
    WEFT_TRY(make_encoders(c, err));
    wf_text_reader_init(&reader, list, cut, c->options->tokenizer);
    enum weft_status st = wf_text_workers_run(&workers, &reader, err);
    wf_text_reader_release(&reader);
    WEFT_TRY(st);

    if (c->bytes == 0)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: there is no text",
                         wf_text_name(&list->at[0]));
    if (c->options->val > 0 && c->val.part.documents == 0)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: none of its %" PRIu64 " documents was chosen for validation; "
                         "store the text in a file, or choose a larger part",
                         wf_text_name(&list->at[0]), c->n_documents);
    WEFT_TRY(finish_shard(&c->train, err));
    return finish_shard(&c->val, err);
}

static void put_split(struct wf_json *j, const struct split *split)
{
    wf_json_begin(j, split->name, '{');
    wf_json_uint(j, "tokens", split->part.tokens);
    if (split->part.counted < split->part.tokens)
        wf_json_uint(j, "counted", split->part.counted);
    wf_json_uint(j, "documents", split->part.documents);
    wf_json_uint(j, "shards", split->part.shards);
    wf_json_end(j, '}');
}

static enum weft_status write_meta(const struct corpus *c, struct weft_error *err)
{
    char path[PATH];
    const struct weft_tokenizer *t = c->options->tokenizer;
    path_in(c, "meta.json", path);
    struct wf_text text = {0};
    FILE *out = wf_text_open(&text);
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %.240s", path);

    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "tokenizer", weft_tokenizer_kind(t));
    wf_json_uint(&j, "vocab", weft_tokenizer_n_vocab(t));
    wf_json_uint(&j, "document_end", (uint64_t)weft_tokenizer_eot(t));
    wf_json_uint(&j, "text_bytes", c->bytes);
    put_split(&j, &c->train);
    put_split(&j, &c->val);
    wf_json_end(&j, '}');
    fputc('\n', out);

    fclose(out);
    enum weft_status st = text.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %.240s", path)
                                      : wf_file_write(path, text.at, text.len, err);
    wf_text_release(&text);
    return st;
}

static enum weft_status check_options(const struct wf_corpus_options *o, bool single_file,
                                      struct weft_error *err)
{
    if (!(o->val >= 0 && o->val < 1))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the validation part %g is out of range (expected at least 0 and less than 1)",
            o->val);
    if (o->val > 0 && single_file)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a validation part needs a folder, not the file %.240s", o->out);
    if (o->shard_tokens == 0 || o->shard_tokens > INT32_MAX || o->n_threads == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a shard of %" PRIu32 " tokens is out of range (expected 1 to %" PRId32
                         ")",
                         o->shard_tokens, INT32_MAX);
    if (weft_tokenizer_eot(o->tokenizer) == WEFT_NO_TOKEN)
        return WEFT_FAIL(err, WEFT_DATA,
                         "the tokenizer has no end-of-document token such as <|endoftext|>");
    return WEFT_OK;
}

enum weft_status wf_corpus_write(struct wf_text_list *list,
                                 const struct wf_corpus_options *options,
                                 struct wf_corpus_result *result, struct weft_error *err)
{
    struct corpus c = {
        .options = options,
        .text_options = &list->options,
        .single_file = wf_path_ends_in(options->out, ".bin"),
        .train.name = "train",
        .val.name = "val",
        .val_document = no_document,
        .hash = wf_tokenizer_hash(options->tokenizer),
    };
    WEFT_TRY(check_options(options, c.single_file, err));
    WEFT_TRY(choose_val_document(&c, list, err));
    WEFT_TRY(open_folder(&c, err));

    enum weft_status st = run(&c, list, err);
    if (st == WEFT_OK && !c.single_file)
        st = weft_tokenizer_save(options->tokenizer, options->out, err);
    if (st == WEFT_OK && !c.single_file)
        st = write_meta(&c, err);

    for (uint32_t i = 0; c.encoders != NULL && i < options->n_threads; i++)
        wf_encoder_free(c.encoders[i]);
    free(c.encoders);
    wf_shard_writer_free(c.train.writer);
    wf_shard_writer_free(c.val.writer);
    if (st != WEFT_OK)
        remove_all(&c);
    else
        *result =
            (struct wf_corpus_result){c.bytes, c.train.part, c.val.part, c.bad, list->n_binary};
    return st;
}
