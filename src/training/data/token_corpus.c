#include "training/data/token_corpus.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "base/size.h"
#include "training/data/shard.h"
#include "training/data/text_crew.h"

enum { PATH = 4096 };

static const uint64_t no_document = UINT64_MAX;

/* One row of shards. */
struct row {
    const char *name;                 /* "train" */
    struct weft_shard_writer *writer; /* owned; NULL between shards */
    uint64_t n_open;                  /* tokens in it */
    struct weft_corpus_part part;
};

struct corpus {
    const struct weft_corpus_options *options; /* borrowed */
    bool one_file, made_folder;
    bool new_tokenizer;             /* there was no tokenizer.json in the folder before */
    struct weft_encoder **encoders; /* owned: one for each worker */
    struct row train, val;
    uint64_t n_documents; /* that have ended */
    uint64_t held_back;   /* the document that goes to val, whatever its number says */
    uint64_t bytes;
};

/* -- names ----------------------------------------------------------------------------------- */

static bool ends_in_bin(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".bin") == 0;
}

static void shard_path(const struct corpus *c, const struct row *row, uint32_t i,
                       char out[PATH])
{
    if (c->one_file)
        snprintf(out, PATH, "%s", c->options->out);
    else
        snprintf(out, PATH, "%s/%s-%06" PRIu32 ".bin", c->options->out, row->name, i);
}

static void path_in(const struct corpus *c, const char *name, char out[PATH])
{
    snprintf(out, PATH, "%s/%s", c->options->out, name);
}

/* Shards of an earlier run would be taken for those of this one. */
static enum weft_status check_folder(const char *path, struct weft_error *err)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    enum weft_status st = WEFT_OK;
    if (dir == NULL && errno == ENOTDIR)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.240s is a file: give a new folder, or a name that ends in .bin",
                         path);
    if (dir == NULL)
        return WEFT_FAIL(err, WEFT_IO, "%.240s: %s", path, strerror(errno));
    while (st == WEFT_OK && (entry = readdir(dir)) != NULL)
        if (ends_in_bin(entry->d_name))
            st = WEFT_FAIL(err, WEFT_USAGE,
                           "%.240s has token shards already: remove them, or give another "
                           "folder",
                           path);
    closedir(dir);
    return st;
}

static enum weft_status open_folder(struct corpus *c, struct weft_error *err)
{
    const char *out = c->options->out;
    if (strlen(out) > PATH - 64)
        return WEFT_FAIL(err, WEFT_USAGE, "%.240s...: the path is too long", out);
    if (c->one_file)
        return WEFT_OK;
    char tokenizer[PATH];
    path_in(c, "tokenizer.json", tokenizer);
    c->new_tokenizer = access(tokenizer, F_OK) != 0;
    if (mkdir(out, 0777) == 0) {
        c->made_folder = true;
        return WEFT_OK;
    }
    if (errno != EEXIST)
        return WEFT_FAIL(err, WEFT_IO, "cannot make the folder %.240s: %s", out,
                         strerror(errno));
    return check_folder(out, err);
}

static void remove_all(const struct corpus *c)
{
    char path[PATH];
    const struct row *rows[] = {&c->train, &c->val};
    for (size_t r = 0; r < WEFT_LEN(rows); r++)
        for (uint32_t i = 0; i < rows[r]->part.shards; i++) {
            shard_path(c, rows[r], i, path);
            remove(path);
        }
    if (c->new_tokenizer) {
        path_in(c, "tokenizer.json", path);
        remove(path);
    }
    if (c->made_folder)
        rmdir(c->options->out);
}

/* -- writing --------------------------------------------------------------------------------- */

static enum weft_status finish_shard(struct row *row, struct weft_error *err)
{
    if (row->writer == NULL)
        return WEFT_OK;
    WEFT_TRY(weft_shard_writer_finish(row->writer, err));
    weft_shard_writer_free(row->writer);
    row->writer = NULL;
    row->n_open = 0;
    row->part.shards++;
    return WEFT_OK;
}

static enum weft_status write_tokens(const struct corpus *c, struct row *row, const int32_t *at,
                                     size_t n, struct weft_error *err)
{
    uint32_t most = c->one_file ? INT32_MAX : c->options->shard_tokens;
    row->part.tokens += n;
    while (n > 0) {
        char path[PATH];
        if (row->writer == NULL) {
            shard_path(c, row, row->part.shards, path);
            WEFT_TRY(weft_shard_writer_new(path, weft_tokenizer_n_vocab(c->options->tokenizer),
                                           &row->writer, err));
        }
        size_t now = weft_size_min(n, most - row->n_open);
        if (c->one_file && now < n)
            return WEFT_FAIL(err, WEFT_DATA,
                             "more than %" PRId32 " tokens: write to a folder, not to one file",
                             INT32_MAX);
        WEFT_TRY(weft_shard_writer_add(row->writer, at, now, err));
        row->n_open += now;
        at += now;
        n -= now;
        if (row->n_open == most && !c->one_file)
            WEFT_TRY(finish_shard(row, err));
    }
    return WEFT_OK;
}

/* Is a document held back, by its number? */
static bool drawn(double val, uint64_t document)
{
    const uint64_t seed = 20240520, stream = 7;
    double u = (double)(weft_random_u64(seed, stream, document) >> 11) * 0x1p-53;
    return document > 0 && u < val;
}

static struct row *row_of(struct corpus *c, uint64_t document)
{
    return document == c->held_back || drawn(c->options->val, document) ? &c->val : &c->train;
}

static enum weft_status take_job(void *ctx, const struct weft_text_job *job,
                                 struct weft_error *err)
{
    struct corpus *c = ctx;
    size_t at = 0;
    c->bytes += job->text_bytes;
    for (size_t i = 0; i < job->ends.len; i++) {
        struct row *row = row_of(c, c->n_documents++);
        size_t end = (size_t)job->ends.at[i];
        WEFT_TRY(write_tokens(c, row, job->tokens.at + at, end - at, err));
        row->part.documents++;
        at = end;
    }
    if (at == job->tokens.len)
        return WEFT_OK;
    return write_tokens(c, row_of(c, c->n_documents), job->tokens.at + at, job->tokens.len - at,
                        err);
}

/* -- encoding, on any thread ------------------------------------------------------------------ */

struct turn {
    const struct weft_tokenizer *tokenizer;
    struct weft_encoder *encoder;
    struct weft_text_job *job;
};

static enum weft_status end_document(const struct turn *t, struct weft_error *err)
{
    struct weft_tokens *tokens = &t->job->tokens, *ends = &t->job->ends;
    WEFT_TRY(weft_tokens_reserve(tokens, 1, err));
    WEFT_TRY(weft_tokens_reserve(ends, 1, err));
    tokens->at[tokens->len++] = weft_tokenizer_document_end(t->tokenizer);
    ends->at[ends->len++] = (int32_t)tokens->len;
    return WEFT_OK;
}

static enum weft_status encode_document(void *ctx, const char *text, size_t len,
                                        struct weft_error *err)
{
    const struct turn *t = ctx;
    t->job->text_bytes += len;
    WEFT_TRY(weft_encoder_encode(t->encoder, text, len, &t->job->tokens, err));
    return end_document(t, err);
}

static enum weft_status encode_job(void *ctx, uint32_t worker, struct weft_text_job *job,
                                   struct weft_error *err)
{
    const struct corpus *c = ctx;
    struct turn t = {c->options->tokenizer, c->encoders[worker], job};
    job->tokens.len = job->ends.len = 0;
    job->text_bytes = 0;
    if (job->block.file->json)
        return weft_text_json_lines(&job->block, encode_document, &t, err);
    job->text_bytes = job->block.len;
    WEFT_TRY(
        weft_encoder_encode(t.encoder, job->block.text, job->block.len, &job->tokens, err));
    return job->block.ends_document ? end_document(&t, err) : WEFT_OK;
}

static size_t cut(const void *ctx, const char *text, size_t len)
{
    return weft_tokenizer_cut(ctx, text, len);
}

static void pass_on(void *ctx, uint64_t bytes)
{
    const struct corpus *c = ctx;
    if (c->options->progress != NULL)
        c->options->progress(c->options->ctx, bytes);
}

/* -- all together ----------------------------------------------------------------------------- */

/* The first document that its number holds back; with fewer documents than that, the last one. */
static enum weft_status choose_held_back(struct corpus *c, struct weft_text_list *list,
                                         struct weft_error *err)
{
    const uint64_t far = 10000000;
    uint64_t first = 1, n = 0;
    if (c->options->val == 0)
        return WEFT_OK;
    while (first < far && !drawn(c->options->val, first))
        first++;
    WEFT_TRY(weft_text_count(list, first + 1, &n, err));
    if (n == 1) {
        WEFT_TRY(weft_text_list_cut(list, 1 - c->options->val, err));
        n = 2;
    }
    c->held_back = n <= first ? n - 1 : first;
    return WEFT_OK;
}

static enum weft_status make_encoders(struct corpus *c, struct weft_error *err)
{
    c->encoders = calloc(c->options->n_threads, sizeof *c->encoders);
    if (c->encoders == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u threads", c->options->n_threads);
    for (uint32_t i = 0; i < c->options->n_threads; i++)
        WEFT_TRY(weft_encoder_new(c->options->tokenizer, &c->encoders[i], err));
    return WEFT_OK;
}

static enum weft_status run(struct corpus *c, const struct weft_text_list *list,
                            struct weft_error *err)
{
    struct weft_text_crew crew = {
        .n_threads = c->options->n_threads,
        .work = encode_job,
        .take = take_job,
        .progress = pass_on,
        .ctx = c,
    };
    struct weft_text_reader reader;
    WEFT_TRY(make_encoders(c, err));
    weft_text_reader_init(&reader, list, cut, c->options->tokenizer);
    enum weft_status st = weft_text_crew_run(&crew, &reader, err);
    weft_text_reader_release(&reader);
    WEFT_TRY(st);
    if (c->bytes == 0)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: there is no text in it", list->at[0].path);
    WEFT_TRY(finish_shard(&c->train, err));
    return finish_shard(&c->val, err);
}

static void put_part(struct weft_json *j, const struct row *row)
{
    weft_json_begin(j, row->name, '{');
    weft_json_uint(j, "tokens", row->part.tokens);
    weft_json_uint(j, "documents", row->part.documents);
    weft_json_uint(j, "shards", row->part.shards);
    weft_json_end(j, '}');
}

static enum weft_status write_meta(const struct corpus *c, struct weft_error *err)
{
    char path[PATH];
    const struct weft_tokenizer *t = c->options->tokenizer;
    path_in(c, "meta.json", path);
    FILE *out = fopen(path, "wb");
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.240s: %s", path, strerror(errno));
    struct weft_json j = {.out = out};
    weft_json_begin(&j, NULL, '{');
    weft_json_string(&j, "tokenizer", weft_tokenizer_kind(t));
    weft_json_uint(&j, "vocab", weft_tokenizer_n_vocab(t));
    weft_json_uint(&j, "document_end", (uint64_t)weft_tokenizer_document_end(t));
    weft_json_uint(&j, "text_bytes", c->bytes);
    put_part(&j, &c->train);
    put_part(&j, &c->val);
    weft_json_end(&j, '}');
    fputc('\n', out);
    bool bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad) {
        remove(path);
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.240s: %s", path, strerror(errno));
    }
    return WEFT_OK;
}

static enum weft_status check_options(const struct weft_corpus_options *o, bool one_file,
                                      struct weft_error *err)
{
    if (!(o->val >= 0 && o->val < 1))
        return WEFT_FAIL(err, WEFT_USAGE, "the validation part is %g: give 0 up to below 1",
                         o->val);
    if (o->val > 0 && one_file)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a validation part needs a folder, not the file %.240s", o->out);
    if (o->shard_tokens == 0 || o->shard_tokens > INT32_MAX || o->n_threads == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "a shard of %" PRIu32 " tokens: give 1 to %" PRId32,
                         o->shard_tokens, INT32_MAX);
    if (weft_tokenizer_document_end(o->tokenizer) == WEFT_NO_TOKEN)
        return WEFT_FAIL(err, WEFT_DATA,
                         "the tokenizer has no token for the end of a document, such as "
                         "<|endoftext|>");
    return WEFT_OK;
}

enum weft_status weft_corpus_write(struct weft_text_list *list,
                                   const struct weft_corpus_options *options,
                                   struct weft_corpus_result *result, struct weft_error *err)
{
    struct corpus c = {
        .options = options,
        .one_file = ends_in_bin(options->out),
        .train.name = "train",
        .val.name = "val",
        .held_back = no_document,
    };
    WEFT_TRY(check_options(options, c.one_file, err));
    WEFT_TRY(choose_held_back(&c, list, err));
    WEFT_TRY(open_folder(&c, err));
    enum weft_status st = run(&c, list, err);
    if (st == WEFT_OK && !c.one_file)
        st = weft_tokenizer_save(options->tokenizer, options->out, err);
    if (st == WEFT_OK && !c.one_file)
        st = write_meta(&c, err);
    for (uint32_t i = 0; c.encoders != NULL && i < options->n_threads; i++)
        weft_encoder_free(c.encoders[i]);
    free(c.encoders);
    weft_shard_writer_free(c.train.writer);
    weft_shard_writer_free(c.val.writer);
    if (st != WEFT_OK)
        remove_all(&c);
    else
        *result = (struct weft_corpus_result){c.bytes, c.train.part, c.val.part};
    return st;
}
