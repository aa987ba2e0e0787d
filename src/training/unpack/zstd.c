/* Decompresses Zstandard with libzstd. */
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "training/unpack/codec.h"

/* Accepts the windows of all files that the zstd program can write. */
enum { MAX_WINDOW_LOG = 31 };

static void *open_zstd(void)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (z != NULL)
        ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, MAX_WINDOW_LOG);
    return z;
}

static enum wf_unpack_result step_zstd(void *self, struct wf_unpack_io *io)
{
    ZSTD_inBuffer in = {io->in, io->n_in, 0};
    ZSTD_outBuffer out = {io->out, io->n_out, 0};
    size_t result = ZSTD_decompressStream(self, &out, &in);
    io->in += in.pos;
    io->n_in -= in.pos;
    io->out += out.pos;
    io->n_out -= out.pos;
    if (ZSTD_isError(result))
        return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? WF_UNPACK_NO_MEMORY
                                                                         : WF_UNPACK_DAMAGED;
    return result == 0 ? WF_UNPACK_END : WF_UNPACK_MORE;
}

static void close_zstd(void *self)
{
    ZSTD_freeDCtx(self);
}

const struct wf_unpack_codec wf_codec_zstd = {
    "zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4, open_zstd, step_zstd, close_zstd};
