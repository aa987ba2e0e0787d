/* Decompresses gzip with zlib. */
#include <stdlib.h>
#include <zlib.h>

#include "base/size.h"
#include "training/unpack/codec.h"

enum { GZIP_WINDOW = 15 + 16 };

static void *open_gzip(void)
{
    z_stream *z = calloc(1, sizeof *z);
    if (z != NULL && inflateInit2(z, GZIP_WINDOW) != Z_OK) {
        free(z);
        return NULL;
    }
    return z;
}

static enum wf_unpack_result step_gzip(void *self, struct wf_unpack_io *io)
{
    z_stream *z = self;
    /* zlib counts in unsigned int. */
    uInt n_in = (uInt)wf_size_min(io->n_in, (uInt)-1);
    uInt n_out = (uInt)wf_size_min(io->n_out, (uInt)-1);
    z->next_in = (z_const Bytef *)io->in;
    z->avail_in = n_in;
    z->next_out = io->out;
    z->avail_out = n_out;
    int result = inflate(z, Z_NO_FLUSH);

    io->in += n_in - z->avail_in;
    io->n_in -= n_in - z->avail_in;
    io->out += n_out - z->avail_out;
    io->n_out -= n_out - z->avail_out;
    if (result == Z_STREAM_END)
        return inflateReset(z) == Z_OK ? WF_UNPACK_END : WF_UNPACK_DAMAGED;
    if (result == Z_MEM_ERROR)
        return WF_UNPACK_NO_MEMORY;
    return result == Z_OK || result == Z_BUF_ERROR ? WF_UNPACK_MORE : WF_UNPACK_DAMAGED;
}

static void close_gzip(void *self)
{
    inflateEnd(self);
    free(self);
}

const struct wf_unpack_codec wf_codec_gzip = {"gzip",    {0x1f, 0x8b}, 2,
                                              open_gzip, step_gzip,    close_gzip};
