/* Decompresses gzip files in memory with zlib. */
#include <stdlib.h>
#include <zlib.h>

#include "base/error.h"
#include "base/input.h"
#include "base/size.h"
#include "unpack/unpack.h"

enum { FIRST_BYTES = 1 << 16, GZIP_WINDOW = 15 + 16 };

struct unpacker {
    z_stream z;
    const char *source; /* borrowed */
    size_t n_left;      /* bytes of input that zlib has not been given */
    char *at;           /* owned */
    size_t len, cap, max_bytes;
    struct weft_error *err;
};

/* Makes room for more output: up to one byte more than the limit, so that a larger file is
 * noticed, and the NUL. */
static enum weft_status grow_output(struct unpacker *u)
{
    if (u->len + 1 < u->cap)
        return WEFT_OK;
    size_t cap = wf_size_min(u->cap == 0 ? FIRST_BYTES : 2 * u->cap, u->max_bytes + 2);
    char *at = realloc(u->at, cap);
    if (at == NULL)
        return WEFT_FAIL(u->err, WEFT_NOMEM, "%.200s: no memory for %zu decompressed bytes",
                         u->source, cap);
    u->at = at;
    u->cap = cap;
    return WEFT_OK;
}

/* zlib counts in unsigned int: gives it at most that many bytes of input and output. */
static int inflate_some(struct unpacker *u)
{
    if (u->z.avail_in == 0) {
        u->z.avail_in = (uInt)wf_size_min(u->n_left, (uInt)-1);
        u->n_left -= u->z.avail_in;
    }
    size_t room = wf_size_min(u->cap - 1 - u->len, (uInt)-1);
    u->z.next_out = (Bytef *)u->at + u->len;
    u->z.avail_out = (uInt)room;
    int result = inflate(&u->z, Z_NO_FLUSH);
    u->len += room - u->z.avail_out;
    return result;
}

/* Decompresses all members of the file, which may be concatenated. */
static enum weft_status inflate_all(struct unpacker *u)
{
    for (;;) {
        WEFT_TRY(grow_output(u));
        int result = inflate_some(u);
        bool more = u->z.avail_in > 0 || u->n_left > 0;
        if (u->len > u->max_bytes)
            return WEFT_FAIL(u->err, WEFT_DATA,
                             "%.200s: larger than %zu bytes after decompression; decompress it "
                             "and reduce it first",
                             u->source, u->max_bytes);
        if (result == Z_STREAM_END && !more)
            return WEFT_OK;
        if (result == Z_STREAM_END)
            result = inflateReset(&u->z);
        else if (result == Z_BUF_ERROR || (result == Z_OK && !more && u->z.avail_out > 0))
            return WEFT_FAIL(u->err, WEFT_DATA, "%.200s: the compressed data is truncated",
                             u->source);

        if (result == Z_MEM_ERROR)
            return WEFT_FAIL(u->err, WEFT_NOMEM, "%.200s: no memory to decompress", u->source);
        if (result != Z_OK)
            return WEFT_FAIL(u->err, WEFT_DATA, "%.200s: the compressed data is damaged (%s)",
                             u->source, u->z.msg != NULL ? u->z.msg : "unexpected data");
    }
}

enum weft_status wf_unpack_gzip(const char *data, size_t n, const char *source,
                                size_t max_bytes, char **out, size_t *len,
                                struct weft_error *err)
{
    struct unpacker u = {.source = source, .n_left = n, .max_bytes = max_bytes, .err = err};
    u.z.next_in = (z_const Bytef *)data;
    if (inflateInit2(&u.z, GZIP_WINDOW) != Z_OK)
        return WEFT_FAIL(err, WEFT_NOMEM, "%.200s: no memory to decompress", source);
    enum weft_status st = inflate_all(&u);
    inflateEnd(&u.z);
    if (st != WEFT_OK) {
        free(u.at);
        return st;
    }
    u.at[u.len] = '\0';
    *out = u.at;
    *len = u.len;
    return WEFT_OK;
}

enum weft_status wf_unpack_read_as(enum weft_status kind, const char *path, char **out,
                                   size_t *len, struct weft_error *err)
{
    char *data = NULL;
    size_t n = 0;
    WEFT_TRY(wf_input_read_as(kind, path, &data, &n, err));
    if (n < 2 || (unsigned char)data[0] != 0x1f || (unsigned char)data[1] != 0x8b) {
        *out = data;
        *len = n;
        return WEFT_OK;
    }
    enum weft_status st = wf_unpack_gzip(data, n, path, WF_UNPACK_MAX_BYTES, out, len, err);
    free(data);
    return st;
}
