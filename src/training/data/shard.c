/* Opens token shards, checks their headers and sizes, and reads tokens and masks across file
 * boundaries. */
#include "training/data/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"
#include "training/data/shard_priv.h"

enum {
    /* The maximum number of files that stay open; other files are opened for each read.  By
     * default a process may have 1,024 open files, but a corpus may have thousands of
     * shards. */
    MAX_OPEN_FILES = 256,
    PIECE_BYTES = 16 << 10,
};

struct shard {
    const char *path; /* borrowed from the list of paths */
    int fd;           /* -1: the file is opened for each read */
    size_t width;
    bool masked;   /* a loss mask follows the tokens */
    uint64_t hash; /* of the tokenizer; 0: unknown */
    /* Position of the first token in all shards joined; number of tokens. */
    uint64_t first, n;
};

struct wf_shards {
    struct wf_paths paths;
    struct shard *at; /* owned; one shard per path */
    size_t n_open;    /* number of shards that were checked and may have an open file */
    uint64_t n_tokens;
    bool masked; /* a shard has a mask */
};

static uint32_t get_u32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Returns the position of the byte after the tokens. */
static uint64_t mask_offset(const struct shard *s)
{
    return WF_SHARD_HEADER_BYTES + s->n * s->width;
}

/* Reads n bytes at an offset.  The size of the file was checked before, so a short read means
 * that the file was truncated. */
static enum weft_status read_bytes(const struct shard *s, int fd, uint64_t offset, size_t n,
                                   unsigned char *out, struct weft_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return WEFT_FAIL(err, wf_errno_status(errno, WEFT_IO),
                             "%.240s: at byte %" PRIu64 ": %s", s->path, offset + done,
                             strerror(errno));
        if (got == 0)
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.240s: there is no byte %" PRIu64 ", but its header has %" PRIu64
                             " tokens; it was truncated",
                             s->path, offset + done, s->n);
        done += (size_t)got;
    }
    return WEFT_OK;
}

/* Opens a regular file.  Returns an error, without blocking, if the path is a pipe. */
static enum weft_status open_file(const char *path, int *fd, uint64_t *bytes,
                                  struct weft_error *err)
{
    struct stat info;
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", path,
                         strerror(errno));
    enum weft_status st = WEFT_OK;
    if (fstat(f, &info) != 0)
        st = WEFT_FAIL(err, WEFT_IO, "%.240s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        st = WEFT_FAIL(err, WEFT_DATA, "%.240s: is not a regular file", path);
    if (st != WEFT_OK) {
        close(f);
        return st;
    }
    *fd = f;
    *bytes = (uint64_t)info.st_size;
    return WEFT_OK;
}

static const struct wf_shard_format *find_format(uint32_t magic)
{
    for (size_t i = 0; i < WEFT_LEN(wf_shard_formats); i++)
        if ((uint32_t)wf_shard_formats[i].magic == magic)
            return &wf_shard_formats[i];
    return NULL;
}

/* Reads the extension of the header.  Files without its magic number have none. */
static enum weft_status check_extension(struct shard *s, const unsigned char *header,
                                        struct weft_error *err)
{
    const unsigned char *at = header + WF_SHARD_EXTENSION_AT;
    if (get_u32(at) != WF_SHARD_EXTENSION_MAGIC)
        return WEFT_OK;
    uint32_t version = get_u32(at + 4), flags = get_u32(at + 8);
    if (version != WF_SHARD_EXTENSION_VERSION || (flags & ~(uint32_t)WF_SHARD_MASKED) != 0)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: at byte 16: unknown extension %" PRIu32 " with flags %" PRIu32
                         " (expected %d with flags 0 or %d); use a newer weft",
                         s->path, version, flags, WF_SHARD_EXTENSION_VERSION, WF_SHARD_MASKED);
    s->masked = (flags & WF_SHARD_MASKED) != 0;
    s->hash = get_u32(at + 12) | (uint64_t)get_u32(at + 16) << 32;
    return WEFT_OK;
}

static enum weft_status check_header(struct shard *s, int fd, uint64_t bytes,
                                     struct weft_error *err)
{
    unsigned char header[WF_SHARD_HEADER_BYTES];
    if (bytes < sizeof header)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: %" PRIu64
                         " bytes are not a token shard, whose header has %d bytes",
                         s->path, bytes, WF_SHARD_HEADER_BYTES);
    WEFT_TRY(read_bytes(s, fd, 0, sizeof header, header, err));

    uint32_t magic = get_u32(header), version = get_u32(header + 4);
    const struct wf_shard_format *format = find_format(magic);
    if (format == NULL)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: not a token shard: it begins with %" PRIu32
                         " (expected %d or %d)",
                         s->path, magic, wf_shard_formats[0].magic, wf_shard_formats[1].magic);
    if (version != (uint32_t)format->version)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: at byte 4: unknown version %" PRIu32
                         " of shard %d (expected %d)",
                         s->path, version, format->magic, format->version);

    s->n = get_u32(header + 8);
    s->width = format->width;
    if (s->n == 0 || s->n > INT32_MAX)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: at byte 8: a count of %" PRIu64 " tokens%s",
                         s->path, s->n, s->n == 0 ? ": the shard is empty" : " is too large");
    WEFT_TRY(check_extension(s, header, err));
    uint64_t expected = mask_offset(s) + (s->masked ? wf_shard_mask_bytes(s->n) : 0);
    if (bytes != expected)
        return WEFT_FAIL(err, WEFT_DATA,
                         "%.240s: has %" PRIu64 " bytes (expected %" PRIu64 " for %" PRIu64
                         " tokens%s); %s",
                         s->path, bytes, expected, s->n, s->masked ? " and their mask" : "",
                         bytes < expected ? "it is truncated" : "other bytes follow");
    return WEFT_OK;
}

static enum weft_status open_shards(struct wf_shards *s, struct weft_error *err)
{
    for (size_t i = 0; i < s->paths.n; i++) {
        struct shard *shard = &s->at[i];
        uint64_t bytes = 0;
        int fd = -1;
        shard->path = s->paths.at[i];
        shard->first = s->n_tokens;
        WEFT_TRY(open_file(shard->path, &fd, &bytes, err));
        enum weft_status st = check_header(shard, fd, bytes, err);
        shard->fd = st == WEFT_OK && i < MAX_OPEN_FILES ? fd : -1;
        if (shard->fd < 0)
            close(fd);
        if (st != WEFT_OK)
            return st;
        s->n_open++;
        s->masked |= shard->masked;
        s->n_tokens += shard->n; /* cannot overflow: each shard has less than 2^31 tokens */
    }
    return WEFT_OK;
}

enum weft_status wf_shards_open(const char *list, struct wf_shards **out,
                                struct weft_error *err)
{
    struct wf_shards *s = calloc(1, sizeof *s);
    if (s == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to open shards");
    enum weft_status st = wf_paths_init(&s->paths, list, err);
    if (st == WEFT_OK) {
        s->at = calloc(s->paths.n, sizeof *s->at);
        st = s->at == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu shards", s->paths.n)
                           : open_shards(s, err);
    }
    if (st == WEFT_OK)
        *out = s;
    else
        wf_shards_free(s);
    return st;
}

void wf_shards_free(struct wf_shards *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_open; i++)
        if (s->at[i].fd >= 0)
            close(s->at[i].fd);
    free(s->at);
    wf_paths_release(&s->paths);
    free(s);
}

uint64_t wf_shards_n_tokens(const struct wf_shards *s)
{
    return s->n_tokens;
}

size_t wf_shards_n_files(const struct wf_shards *s)
{
    return s->paths.n;
}

const char *wf_shards_path(const struct wf_shards *s, size_t i)
{
    return s->paths.at[i];
}

size_t wf_shards_width(const struct wf_shards *s, size_t i)
{
    return s->at[i].width;
}

uint64_t wf_shards_file_tokens(const struct wf_shards *s, size_t i)
{
    return s->at[i].n;
}

uint64_t wf_shards_file_hash(const struct wf_shards *s, size_t i)
{
    return s->at[i].hash;
}

bool wf_shards_masked(const struct wf_shards *s)
{
    return s->masked;
}

/* Returns the shard that contains position `at`, which must be in range. */
static const struct shard *find_shard(const struct wf_shards *s, uint64_t at)
{
    size_t low = 0, high = s->paths.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->at[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return &s->at[low];
}

static enum weft_status decode(const struct shard *s, const unsigned char *bytes,
                               uint64_t index, size_t n, uint32_t limit, int32_t *out,
                               struct weft_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char *b = bytes + i * s->width;
        uint32_t token = s->width == 2 ? (uint32_t)b[0] | (uint32_t)b[1] << 8 : get_u32(b);
        if (token >= limit)
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.240s: token %" PRIu64 " (at byte %" PRIu64 ") is %" PRIu32
                             ": the vocabulary has %" PRIu32
                             "; use a larger model.vocab, or data of the model's tokenizer",
                             s->path, index + i, WF_SHARD_HEADER_BYTES + (index + i) * s->width,
                             token, limit);
        out[i] = (int32_t)token;
    }
    return WEFT_OK;
}

/* Reads n tokens of one shard, starting at token `index`.  All tokens must be in range. */
static enum weft_status read_shard(const struct shard *s, int fd, uint64_t index, size_t n,
                                   uint32_t limit, int32_t *out, struct weft_error *err)
{
    unsigned char piece[PIECE_BYTES];
    while (n > 0) {
        size_t now = wf_size_min(n, sizeof piece / s->width);
        uint64_t offset = WF_SHARD_HEADER_BYTES + index * s->width;
        WEFT_TRY(read_bytes(s, fd, offset, now * s->width, piece, err));
        WEFT_TRY(decode(s, piece, index, now, limit, out, err));
        index += now;
        out += now;
        n -= now;
    }
    return WEFT_OK;
}

/* Opens the file of a shard again and checks that the file has not changed. */
static enum weft_status reopen(const struct shard *s, int *fd, struct weft_error *err)
{
    struct shard now = {.path = s->path};
    uint64_t bytes = 0;
    WEFT_TRY(open_file(s->path, fd, &bytes, err));
    enum weft_status st = check_header(&now, *fd, bytes, err);
    if (st == WEFT_OK && (now.n != s->n || now.width != s->width || now.masked != s->masked))
        st = WEFT_FAIL(err, WEFT_DATA, "%.240s: has changed since it was opened", s->path);
    if (st != WEFT_OK)
        close(*fd);
    return st;
}

/* Replaces tokens of one shard that do not count by -1.  `limit` is not used. */
static enum weft_status mask_shard(const struct shard *s, int fd, uint64_t index, size_t n,
                                   uint32_t limit, int32_t *out, struct weft_error *err)
{
    unsigned char piece[PIECE_BYTES];
    (void)limit;
    while (s->masked && n > 0) {
        size_t skip = index % 8, now = wf_size_min(n, 8 * sizeof piece - skip);
        WEFT_TRY(read_bytes(s, fd, mask_offset(s) + index / 8,
                            (size_t)wf_shard_mask_bytes(skip + now), piece, err));
        for (size_t i = 0; i < now; i++)
            if ((piece[(skip + i) / 8] >> (skip + i) % 8 & 1) == 0)
                out[i] = -1;
        index += now;
        out += now;
        n -= now;
    }
    return WEFT_OK;
}

/* Reads or masks tokens of one shard. */
typedef enum weft_status shard_fn(const struct shard *s, int fd, uint64_t index, size_t n,
                                  uint32_t limit, int32_t *out, struct weft_error *err);

/* Calls `visit` for the part of a range in each shard. */
static enum weft_status visit_shards(const struct wf_shards *s, uint64_t at, size_t n,
                                     uint32_t limit, shard_fn *visit, int32_t *out,
                                     struct weft_error *err)
{
    if (at > s->n_tokens || n > s->n_tokens - at)
        return WEFT_FAIL(err, WEFT_DATA,
                         "tokens %" PRIu64 " to %" PRIu64
                         " are out of range: there are %" PRIu64,
                         at, at + n, s->n_tokens);

    while (n > 0) {
        const struct shard *shard = find_shard(s, at);
        uint64_t index = at - shard->first;
        size_t now = wf_size_min(n, shard->n - index);
        int fd = shard->fd;
        if (fd < 0)
            WEFT_TRY(reopen(shard, &fd, err));
        enum weft_status st = visit(shard, fd, index, now, limit, out, err);
        if (shard->fd < 0)
            close(fd);
        if (st != WEFT_OK)
            return st;
        at += now;
        out += now;
        n -= now;
    }
    return WEFT_OK;
}

enum weft_status wf_shards_read(const struct wf_shards *s, uint64_t at, size_t n,
                                uint32_t vocab, int32_t *out, struct weft_error *err)
{
    uint32_t limit = vocab > INT32_MAX ? (uint32_t)INT32_MAX + 1 : vocab;
    return visit_shards(s, at, n, limit, read_shard, out, err);
}

enum weft_status wf_shards_mask(const struct wf_shards *s, uint64_t at, size_t n,
                                int32_t *tokens, struct weft_error *err)
{
    return s->masked ? visit_shards(s, at, n, 0, mask_shard, tokens, err) : WEFT_OK;
}

enum weft_status wf_shards_open_split(const char *list, const char *part,
                                      struct wf_shards **out, struct weft_error *err)
{
    char pattern[4096];
    glob_t found;
    int n = snprintf(pattern, sizeof pattern, "%s/%s-*.bin", list, part);
    bool any = false;
    if (n > 0 && (size_t)n < sizeof pattern)
        WEFT_TRY(wf_paths_match(pattern, &found, &any, err));
    if (any)
        globfree(&found);
    return wf_shards_open(any ? pattern : list, out, err);
}

enum weft_status wf_shards_fingerprint(const struct wf_shards *s, uint64_t *out,
                                       struct weft_error *err)
{
    enum { SAMPLES = 64, LENGTH = 512 };
    uint64_t n = wf_shards_n_tokens(s), h = wf_hash(0, &n, sizeof n);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        int32_t tokens[LENGTH];
        uint64_t at = n <= LENGTH ? 0 : (n - LENGTH) / (SAMPLES - 1) * i;
        size_t length = n < LENGTH ? (size_t)n : LENGTH;
        WEFT_TRY(wf_shards_read(s, at, length, UINT32_MAX, tokens, err));
        WEFT_TRY(wf_shards_mask(s, at, length, tokens, err));
        h = wf_hash(h, tokens, length * sizeof *tokens);
    }
    *out = h;
    return WEFT_OK;
}
