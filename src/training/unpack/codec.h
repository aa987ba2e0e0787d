/* The interface of one compression format, as the stream uses it. */
#ifndef TRAINING_UNPACK_CODEC_H
#define TRAINING_UNPACK_CODEC_H

#include <stdbool.h>
#include <stddef.h>

enum wf_unpack_result {
    WF_UNPACK_MORE,      /* the content continues */
    WF_UNPACK_END,       /* a member is complete; another one may follow */
    WF_UNPACK_DAMAGED,   /* the data is not valid */
    WF_UNPACK_NO_MEMORY, /* memory ran out, or the data needs more than the limit */
};

/* Input and output of one step.  The step advances the pointers. */
struct wf_unpack_io {
    const unsigned char *in;
    size_t n_in;
    unsigned char *out;
    size_t n_out;
    bool last; /* no input follows */
};

struct wf_unpack_codec {
    const char *name;
    unsigned char magic[6];
    size_t n_magic;
    void *(*open)(void); /* NULL: no memory */
    /* Decompresses until input or output is used up or a member ends.  After WF_UNPACK_END the
     * next call starts a new member. */
    enum wf_unpack_result (*step)(void *self, struct wf_unpack_io *io);
    void (*close)(void *self);
};

extern const struct wf_unpack_codec wf_codec_gzip, wf_codec_zstd, wf_codec_xz, wf_codec_bzip2;

#endif
