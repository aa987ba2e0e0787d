/* Decompresses xz with liblzma. */
#include <lzma.h>
#include <stdlib.h>

#include "training/unpack/codec.h"

/* The maximum memory of the decoder.  The highest preset of the xz program needs 65 MiB. */
#define MEMORY_LIMIT (UINT64_C(1) << 30)

static void *open_xz(void)
{
    lzma_stream *z = calloc(1, sizeof *z);
    if (z != NULL && lzma_stream_decoder(z, MEMORY_LIMIT, LZMA_CONCATENATED) != LZMA_OK) {
        free(z);
        return NULL;
    }
    return z;
}

static enum wf_unpack_result step_xz(void *self, struct wf_unpack_io *io)
{
    lzma_stream *z = self;
    z->next_in = io->in;
    z->avail_in = io->n_in;
    z->next_out = io->out;
    z->avail_out = io->n_out;
    lzma_ret result = lzma_code(z, io->last ? LZMA_FINISH : LZMA_RUN);
    io->in = z->next_in;
    io->n_in = z->avail_in;
    io->out = z->next_out;
    io->n_out = z->avail_out;

    /* The decoder reads concatenated streams itself, so the end is the end of the file. */
    if (result == LZMA_STREAM_END)
        return WF_UNPACK_END;
    if (result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR)
        return WF_UNPACK_NO_MEMORY;
    return result == LZMA_OK || result == LZMA_BUF_ERROR ? WF_UNPACK_MORE : WF_UNPACK_DAMAGED;
}

static void close_xz(void *self)
{
    lzma_end(self);
    free(self);
}

const struct wf_unpack_codec wf_codec_xz = {
    "xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6, open_xz, step_xz, close_xz};
