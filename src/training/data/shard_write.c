/* Writes token shards and their loss masks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "training/data/shard.h"
#include "training/data/shard_priv.h"

struct wf_shard_writer {
    struct wf_atomic_file file;
    const struct wf_shard_format *format; /* borrowed: an element of the table of formats */
    uint32_t vocab;                       /* token ids must be less than vocab */
    uint64_t n;
    uint64_t hash; /* of the tokenizer; 0: unknown */
    /* Owned: one bit per token, with all bits after token n set; NULL while every token
     * counts. */
    unsigned char *mask;
    size_t mask_cap;
};

static void put_u32(unsigned char *b, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(value >> 8 * i);
}

static void make_header(const struct wf_shard_writer *w,
                        unsigned char header[WF_SHARD_HEADER_BYTES])
{
    memset(header, 0, WF_SHARD_HEADER_BYTES);
    put_u32(header, (uint32_t)w->format->magic);
    put_u32(header + 4, (uint32_t)w->format->version);
    put_u32(header + 8, (uint32_t)w->n);
    if (w->hash == 0 && w->mask == NULL)
        return;
    unsigned char *at = header + WF_SHARD_EXTENSION_AT;
    put_u32(at, WF_SHARD_EXTENSION_MAGIC);
    put_u32(at + 4, WF_SHARD_EXTENSION_VERSION);
    put_u32(at + 8, w->mask == NULL ? 0 : WF_SHARD_MASKED);
    put_u32(at + 12, (uint32_t)w->hash);
    put_u32(at + 16, (uint32_t)(w->hash >> 32));
}

static enum weft_status open_writer(struct wf_shard_writer *w, const char *path,
                                    struct weft_error *err)
{
    struct stat info;
    /* Only a regular file may be replaced; renaming would destroy a device file. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be written: it is not a regular file",
                         path);
    WEFT_TRY(wf_atomic_file_open(&w->file, path, err));
    unsigned char header[WF_SHARD_HEADER_BYTES];
    make_header(w, header);
    return wf_atomic_file_write(&w->file, header, sizeof header, err);
}

enum weft_status wf_shard_writer_new(const char *path, uint32_t vocab,
                                     struct wf_shard_writer **out, struct weft_error *err)
{
    struct wf_shard_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to write %.240s", path);
    w->file.fd = -1;
    w->format = &wf_shard_formats[vocab > UINT16_MAX + 1];
    w->vocab = vocab;
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
                         w->file.path, INT32_MAX);

    while (n > 0) {
        size_t now = wf_size_min(n, sizeof piece / w->format->width);
        unsigned char *b = piece;
        for (size_t i = 0; i < now; i++, b += w->format->width) {
            if (tokens[i] < 0 || (uint32_t)tokens[i] >= w->vocab)
                return WEFT_FAIL(err, WEFT_DATA,
                                 "%.240s: token %" PRIu64 " is %" PRId32
                                 ": the vocabulary has %" PRIu32,
                                 w->file.path, w->n + i, tokens[i], w->vocab);
            unsigned char four[4];
            put_u32(four, (uint32_t)tokens[i]);
            memcpy(b, four, w->format->width);
        }
        WEFT_TRY(wf_atomic_file_write(&w->file, piece, now * w->format->width, err));
        w->n += now;
        tokens += now;
        n -= now;
    }
    return WEFT_OK;
}

/* Makes room for n more bits of the mask and sets them. */
static enum weft_status grow_mask(struct wf_shard_writer *w, size_t n, struct weft_error *err)
{
    size_t need = (size_t)wf_shard_mask_bytes(w->n + n);
    if (need <= w->mask_cap)
        return WEFT_OK;
    size_t cap = need + need / 2 + 4096;
    unsigned char *mask = realloc(w->mask, cap);
    if (mask == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the loss mask of %.240s",
                         w->file.path);
    memset(mask + w->mask_cap, 0xff, cap - w->mask_cap);
    w->mask = mask;
    w->mask_cap = cap;
    return WEFT_OK;
}

enum weft_status wf_shard_writer_add_masked(struct wf_shard_writer *w, const int32_t *tokens,
                                            const bool *counted, size_t n,
                                            struct weft_error *err)
{
    bool all = true;
    uint64_t first = w->n;
    for (size_t i = 0; i < n && all; i++)
        all = counted[i];
    if (!all || w->mask != NULL)
        WEFT_TRY(grow_mask(w, n, err));
    WEFT_TRY(wf_shard_writer_add(w, tokens, n, err));
    for (size_t i = 0; i < n && !all; i++)
        if (!counted[i])
            w->mask[(first + i) / 8] &= (unsigned char)~(1U << (first + i) % 8);
    return WEFT_OK;
}

void wf_shard_writer_set_hash(struct wf_shard_writer *w, uint64_t hash)
{
    w->hash = hash;
}

/* Appends the mask.  Tokens that were added without one count.  Unused bits are zero. */
static enum weft_status write_mask(struct wf_shard_writer *w, struct weft_error *err)
{
    if (w->mask == NULL)
        return WEFT_OK;
    WEFT_TRY(grow_mask(w, 0, err));
    size_t bytes = (size_t)wf_shard_mask_bytes(w->n);
    if (w->n % 8 != 0)
        w->mask[bytes - 1] &= (unsigned char)((1U << w->n % 8) - 1);
    return wf_atomic_file_write(&w->file, w->mask, bytes, err);
}

enum weft_status wf_shard_writer_finish(struct wf_shard_writer *w, struct weft_error *err)
{
    if (w->n == 0)
        return WEFT_FAIL(err, WEFT_DATA, "%.240s: no tokens to write", w->file.path);
    WEFT_TRY(write_mask(w, err));
    unsigned char header[WF_SHARD_HEADER_BYTES];
    make_header(w, header);
    WEFT_TRY(wf_atomic_file_overwrite(&w->file, 0, header, sizeof header, err));
    return wf_atomic_file_commit(&w->file, err);
}

void wf_shard_writer_free(struct wf_shard_writer *w)
{
    if (w == NULL)
        return;
    wf_atomic_file_release(&w->file);
    free(w->mask);
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
