/* Reads whole files that may be compressed. */
#include "training/unpack/unpack.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"

enum { FIRST_BYTES = 1 << 16 };

/* Reads one byte more than the limit, so that a larger file is noticed. */
enum weft_status wf_stream_read_all(struct wf_stream *s, const char *name, size_t max_bytes,
                                    char **out, size_t *len, struct weft_error *err)
{
    size_t cap = wf_size_min(FIRST_BYTES, max_bytes + 1), n = 0, got = 0;
    char *text = malloc(cap + 1);
    enum weft_status st = WEFT_OK;
    while (text != NULL) {
        st = wf_stream_read(s, text + n, cap - n, &got, err);
        n += got;
        if (st != WEFT_OK || n < cap || n > max_bytes)
            break;
        cap = wf_size_min(2 * cap, max_bytes + 1);
        char *more = realloc(text, cap + 1);
        if (more == NULL)
            free(text);
        text = more;
        got = 0;
    }

    if (text == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "%.200s: no memory for %zu bytes", name, cap);
    else if (st == WEFT_OK && n > max_bytes)
        st = WEFT_FAIL(err, WEFT_DATA,
                       "%.200s: larger than %zu bytes after decompression; decompress it and "
                       "reduce it first",
                       name, max_bytes);
    if (st != WEFT_OK) {
        free(text);
        return st;
    }
    text[n] = '\0';
    *out = text;
    *len = n;
    return WEFT_OK;
}

enum weft_status wf_unpack_read_as(enum weft_status kind, const char *path, char **out,
                                   size_t *len, struct weft_error *err)
{
    struct wf_stream *s = NULL;
    enum weft_status st = wf_stream_open(path, &s, err);
    if (st == WEFT_DATA && err != NULL)
        err->status = kind;
    if (st != WEFT_OK)
        return st == WEFT_DATA ? kind : st;
    size_t max_bytes = wf_stream_packing(s) == NULL ? SIZE_MAX / 4 : WF_UNPACK_MAX_BYTES;
    st = wf_stream_read_all(s, path, max_bytes, out, len, err);
    wf_stream_free(s);
    return st;
}
