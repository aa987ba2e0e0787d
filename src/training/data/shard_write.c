#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/size.h"
#include "training/data/shard.h"
#include "training/data/shard_priv.h"

struct wf_shard_writer {
    FILE *out;                            /* owned; NULL once it is finished */
    char *path;                           /* owned */
    char *tmp_path;                       /* owned: the name it has while it is written */
    const struct wf_shard_format *format; /* borrowed: a row of the table */
    uint32_t limit;                       /* tokens are below */
    uint64_t n;
};

static void put_u32(unsigned char *b, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(value >> 8 * i);
}

static enum weft_status cannot_write(const struct wf_shard_writer *w, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_IO, "cannot write %.240s: %s", w->path, strerror(errno));
}

static enum weft_status write_header(struct wf_shard_writer *w, struct weft_error *err)
{
    unsigned char header[WF_SHARD_HEADER_BYTES] = {0};
    put_u32(header, (uint32_t)w->format->magic);
    put_u32(header + 4, (uint32_t)w->format->version);
    put_u32(header + 8, (uint32_t)w->n);
    return fwrite(header, 1, sizeof header, w->out) == sizeof header ? WEFT_OK
                                                                     : cannot_write(w, err);
}

static enum weft_status open_writer(struct wf_shard_writer *w, const char *path,
                                    struct weft_error *err)
{
    size_t room = strlen(path) + 32;
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* renaming would destroy a device */
        return WEFT_FAIL(err, WEFT_IO, "cannot write %.240s: is not a regular file", path);
    w->path = strdup(path);
    w->tmp_path = malloc(room);
    if (w->path == NULL || w->tmp_path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to write %.240s", path);
    snprintf(w->tmp_path, room, "%s.%ld.new", path, (long)getpid());
    w->out = fopen(w->tmp_path, "wb");
    return w->out == NULL ? cannot_write(w, err) : write_header(w, err);
}

enum weft_status wf_shard_writer_new(const char *path, uint32_t vocab,
                                     struct wf_shard_writer **out, struct weft_error *err)
{
    struct wf_shard_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to write %.240s", path);
    w->format = &wf_shard_formats[vocab > UINT16_MAX + 1];
    w->limit = vocab;
    enum weft_status st = open_writer(w, path, err);
    if (st == WEFT_OK)
        *out = w;
    else
        wf_shard_writer_free(w);
    return st;
}

enum weft_status wf_shard_writer_add(struct wf_shard_writer *w, const int32_t *tokens, size_t n,
                                     struct weft_error *err)
{
    unsigned char piece[4096];
    if (n > INT32_MAX - w->n)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: a shard has at most %" PRId32 " tokens",
                         w->path, INT32_MAX);
    while (n > 0) {
        size_t now = wf_size_min(n, sizeof piece / w->format->width);
        unsigned char *b = piece;
        for (size_t i = 0; i < now; i++, b += w->format->width) {
            if (tokens[i] < 0 || (uint32_t)tokens[i] >= w->limit)
                return WEFT_FAIL(err, WEFT_DATA,
                                 "%.240s: token %" PRIu64 " is %" PRId32
                                 ": the vocabulary has %" PRIu32,
                                 w->path, w->n + i, tokens[i], w->limit);
            unsigned char four[4];
            put_u32(four, (uint32_t)tokens[i]);
            memcpy(b, four, w->format->width);
        }
        if (fwrite(piece, w->format->width, now, w->out) != now)
            return cannot_write(w, err);
        w->n += now;
        tokens += now;
        n -= now;
    }
    return WEFT_OK;
}

enum weft_status wf_shard_writer_finish(struct wf_shard_writer *w, struct weft_error *err)
{
    if (w->n == 0)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: no tokens to write", w->path);
    if (fseek(w->out, 0, SEEK_SET) != 0)
        return cannot_write(w, err);
    WEFT_TRY(write_header(w, err));
    if (fflush(w->out) != 0 || fsync(fileno(w->out)) != 0)
        return cannot_write(w, err);
    FILE *out = w->out;
    w->out = NULL;
    if (fclose(out) != 0 || rename(w->tmp_path, w->path) != 0) {
        enum weft_status st = cannot_write(w, err);
        remove(w->tmp_path);
        return st;
    }
    return WEFT_OK;
}

void wf_shard_writer_free(struct wf_shard_writer *w)
{
    if (w == NULL)
        return;
    if (w->out != NULL) {
        fclose(w->out);
        remove(w->tmp_path);
    }
    free(w->tmp_path);
    free(w->path);
    free(w);
}

enum weft_status wf_shard_write(const char *path, uint32_t vocab, const int32_t *tokens,
                                size_t n, struct weft_error *err)
{
    struct wf_shard_writer *w = NULL;
    WEFT_TRY(wf_shard_writer_new(path, vocab, &w, err));
    enum weft_status st = wf_shard_writer_add(w, tokens, n, err);
    if (st == WEFT_OK)
        st = wf_shard_writer_finish(w, err);
    wf_shard_writer_free(w);
    return st;
}
