/* Decompresses bzip2 with libbz2. */
#include <bzlib.h>
#include <limits.h>
#include <stdlib.h>

#include "base/size.h"
#include "training/unpack/codec.h"

static void *open_bzip2(void)
{
    bz_stream *z = calloc(1, sizeof *z);
    if (z != NULL && BZ2_bzDecompressInit(z, 0, 0) != BZ_OK) {
        free(z);
        return NULL;
    }
    return z;
}

/* Starts the next member with the same object. */
static enum wf_unpack_result restart(bz_stream *z)
{
    BZ2_bzDecompressEnd(z);
    *z = (bz_stream){0};
    return BZ2_bzDecompressInit(z, 0, 0) == BZ_OK ? WF_UNPACK_END : WF_UNPACK_NO_MEMORY;
}

static enum wf_unpack_result step_bzip2(void *self, struct wf_unpack_io *io)
{
    bz_stream *z = self;
    /* libbz2 counts in unsigned int. */
    unsigned n_in = (unsigned)wf_size_min(io->n_in, UINT_MAX);
    unsigned n_out = (unsigned)wf_size_min(io->n_out, UINT_MAX);
    z->next_in = (char *)io->in; /* it is not written */
    z->avail_in = n_in;
    z->next_out = (char *)io->out;
    z->avail_out = n_out;
    int result = BZ2_bzDecompress(z);

    io->in += n_in - z->avail_in;
    io->n_in -= n_in - z->avail_in;
    io->out += n_out - z->avail_out;
    io->n_out -= n_out - z->avail_out;
    if (result == BZ_STREAM_END)
        return restart(z);
    if (result == BZ_MEM_ERROR)
        return WF_UNPACK_NO_MEMORY;
    return result == BZ_OK ? WF_UNPACK_MORE : WF_UNPACK_DAMAGED;
}

static void close_bzip2(void *self)
{
    BZ2_bzDecompressEnd(self);
    free(self);
}

const struct wf_unpack_codec wf_codec_bzip2 = {"bzip2",    {'B', 'Z', 'h'}, 3,
                                               open_bzip2, step_bzip2,      close_bzip2};
