/* Reads a file in pieces and decompresses it if its first bytes are those of a known format. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/size.h"
#include "training/unpack/codec.h"
#include "training/unpack/unpack.h"

enum { PIECE = 1 << 16, MAX_MAGIC = 6 };

struct wf_stream {
    FILE *in;                            /* owned if `owned` */
    bool owned;                          /* `in` is closed with the stream */
    const char *name;                    /* borrowed */
    char *name_copy;                     /* owned: memory of `name`, or NULL */
    const struct wf_unpack_codec *codec; /* borrowed; NULL: not compressed */
    void *unpacker;                      /* owned: state of the codec */
    bool between;                        /* no member has begun since the last one ended */
    bool ended;                          /* `in` has no more bytes */
    size_t at, n;                        /* unread bytes of `piece`: at .. n */
    char *head;                          /* owned: content that was peeked; NULL: none */
    size_t n_head, head_at;              /* its size and the part that was read */
    char piece[PIECE];
};

static const struct wf_unpack_codec *const codecs[] = {&wf_codec_gzip, &wf_codec_zstd,
                                                       &wf_codec_xz, &wf_codec_bzip2};

static enum weft_status fail_read(const struct wf_stream *s, struct weft_error *err)
{
    return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", s->name,
                     strerror(errno));
}

/* Reads more bytes of the file until `piece` has at least `n` unread bytes. */
static enum weft_status refill(struct wf_stream *s, size_t n, struct weft_error *err)
{
    if (s->n - s->at >= n || s->ended)
        return WEFT_OK;
    memmove(s->piece, s->piece + s->at, s->n - s->at);
    s->n -= s->at;
    s->at = 0;
    size_t got = fread(s->piece + s->n, 1, sizeof s->piece - s->n, s->in);
    if (ferror(s->in))
        return fail_read(s, err);
    s->ended = got < sizeof s->piece - s->n;
    s->n += got;
    return WEFT_OK;
}

/* Recognizes the format.  bzip2's magic number consists of letters, so the digit and the block
 * that follow are checked, too. */
static const struct wf_unpack_codec *find_codec(const char *bytes, size_t n)
{
    for (size_t i = 0; i < WEFT_LEN(codecs); i++)
        if (n >= codecs[i]->n_magic && memcmp(bytes, codecs[i]->magic, codecs[i]->n_magic) == 0)
            return codecs[i] != &wf_codec_bzip2 ||
                           (n >= 10 && bytes[3] >= '1' && bytes[3] <= '9' &&
                            (memcmp(bytes + 4, "1AY&SY", 6) == 0 ||
                             memcmp(bytes + 4, "\x17rE8P\x90", 6) == 0))
                       ? codecs[i]
                       : NULL;
    return NULL;
}

static enum weft_status detect(struct wf_stream *s, struct weft_error *err)
{
    WEFT_TRY(refill(s, MAX_MAGIC + 4, err));
    s->codec = find_codec(s->piece, s->n);
    if (s->codec == NULL)
        return WEFT_OK;
    s->unpacker = s->codec->open();
    if (s->unpacker == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.240s: no memory to decompress", s->name);
    return WEFT_OK;
}

enum weft_status wf_stream_new(FILE *in, const char *name, struct wf_stream **out,
                               struct weft_error *err)
{
    struct wf_stream *s = malloc(sizeof *s);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.240s: no memory to read it", name);
    memset(s, 0, offsetof(struct wf_stream, piece));
    s->in = in;
    s->name = name;
    enum weft_status st = detect(s, err);
    if (st != WEFT_OK) {
        wf_stream_free(s);
        return st;
    }
    *out = s;
    return WEFT_OK;
}

enum weft_status wf_stream_open(const char *path, struct wf_stream **out,
                                struct weft_error *err)
{
    if (strcmp(path, "-") == 0)
        return wf_stream_new(stdin, "standard input", out, err);
    char *name = strdup(path);
    if (name == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the name of a file");

    struct stat info;
    FILE *in = fopen(path, "rb");
    enum weft_status st = WEFT_OK;
    if (in == NULL)
        st = WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", path,
                       strerror(errno));
    else if (fstat(fileno(in), &info) == 0 && S_ISDIR(info.st_mode))
        st = WEFT_FAIL(err, WEFT_DATA, "%.240s: is a directory, not a file", path);
    if (st == WEFT_OK)
        st = wf_stream_new(in, name, out, err);
    if (st != WEFT_OK) {
        if (in != NULL)
            fclose(in);
        free(name);
        return st;
    }
    (*out)->owned = true;
    (*out)->name_copy = name;
    return WEFT_OK;
}

void wf_stream_free(struct wf_stream *s)
{
    if (s == NULL)
        return;
    if (s->unpacker != NULL)
        s->codec->close(s->unpacker);
    if (s->owned)
        fclose(s->in);
    free(s->head);
    free(s->name_copy);
    free(s);
}

const char *wf_stream_packing(const struct wf_stream *s)
{
    return s->codec == NULL ? NULL : s->codec->name;
}

enum weft_status wf_stream_seek(struct wf_stream *s, uint64_t offset, struct weft_error *err)
{
    free(s->head);
    s->head = NULL;
    s->n_head = s->head_at = s->at = s->n = 0;
    s->ended = false;
    clearerr(s->in);
    return fseeko(s->in, (off_t)offset, SEEK_SET) == 0 ? WEFT_OK : fail_read(s, err);
}

static enum weft_status read_plain(struct wf_stream *s, char *out, size_t n, size_t *got,
                                   struct weft_error *err)
{
    size_t done = wf_size_min(n, s->n - s->at);
    memcpy(out, s->piece + s->at, done);
    s->at += done;
    if (done < n && !s->ended) {
        done += fread(out + done, 1, n - done, s->in);
        if (ferror(s->in))
            return fail_read(s, err);
        s->ended = done < n;
    }
    *got = done;
    return WEFT_OK;
}

/* Decompresses until the output is full or the file ends after a complete member. */
static enum weft_status read_packed(struct wf_stream *s, char *out, size_t n, size_t *got,
                                    struct weft_error *err)
{
    struct wf_unpack_io io = {.out = (unsigned char *)out, .n_out = n};
    while (io.n_out > 0) {
        WEFT_TRY(refill(s, 1, err));
        if (s->between && s->at == s->n)
            break;
        io.in = (const unsigned char *)s->piece + s->at;
        io.n_in = s->n - s->at;
        io.last = s->ended;

        size_t before_in = io.n_in, before_out = io.n_out;
        enum wf_unpack_result result = s->codec->step(s->unpacker, &io);
        bool stuck = io.n_in == before_in && io.n_out == before_out;
        s->at = s->n - io.n_in;
        s->between = result == WF_UNPACK_END;
        if (result == WF_UNPACK_NO_MEMORY)
            return WEFT_FAIL(err, WEFT_NOMEM, "%.240s: no memory to decompress (%s)", s->name,
                             s->codec->name);
        if (result == WF_UNPACK_DAMAGED)
            return WEFT_FAIL(err, WEFT_DATA, "%.240s: the compressed data is damaged (%s)",
                             s->name, s->codec->name);
        if (result == WF_UNPACK_MORE && stuck && s->ended)
            return WEFT_FAIL(err, WEFT_DATA, "%.240s: the compressed data is truncated (%s)",
                             s->name, s->codec->name);
    }
    *got = n - io.n_out;
    return WEFT_OK;
}

static enum weft_status read_content(struct wf_stream *s, char *out, size_t n, size_t *got,
                                     struct weft_error *err)
{
    return s->codec == NULL ? read_plain(s, out, n, got, err)
                            : read_packed(s, out, n, got, err);
}

enum weft_status wf_stream_peek(struct wf_stream *s, size_t n, const char **at, size_t *len,
                                struct weft_error *err)
{
    char *head = malloc(n + 1);
    if (head == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.240s: no memory to read it", s->name);
    s->head = head;
    WEFT_TRY(read_content(s, head, n, &s->n_head, err));
    *at = head;
    *len = s->n_head;
    return WEFT_OK;
}

enum weft_status wf_stream_read(struct wf_stream *s, char *out, size_t n, size_t *got,
                                struct weft_error *err)
{
    size_t known = wf_size_min(n, s->n_head - s->head_at), more = 0;
    if (known > 0)
        memcpy(out, s->head + s->head_at, known);
    s->head_at += known;
    if (known < n)
        WEFT_TRY(read_content(s, out + known, n - known, &more, err));
    *got = known + more;
    return WEFT_OK;
}
