/* Declarations shared by the shard reader and writer: file formats and lists of paths. */
#ifndef TRAINING_DATA_SHARD_PRIV_H
#define TRAINING_DATA_SHARD_PRIV_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_shard_format {
    int32_t magic, version;
    size_t width; /* bytes per token */
};

static const struct wf_shard_format wf_shard_formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* The extension of the header, after magic, version and count.  Files without its magic number
 * have no extension. */
enum {
    WF_SHARD_EXTENSION_AT = 12,
    WF_SHARD_EXTENSION_MAGIC = 0x54464557, /* "WEFT" */
    WF_SHARD_EXTENSION_VERSION = 1,
    WF_SHARD_MASKED = 1, /* flag: the loss mask follows the tokens */
};

/* Returns the bytes of the loss mask of n tokens. */
static inline uint64_t wf_shard_mask_bytes(uint64_t n)
{
    return n / 8 + (n % 8 != 0);
}

struct wf_paths {
    char **at; /* owned array of owned strings */
    size_t n;
};

/* Finds the files that `list` describes and stores their paths in order.  Returns an error if
 * there are no files. */
enum weft_status wf_paths_init(struct wf_paths *paths, const char *list,
                               struct weft_error *err);
void wf_paths_release(struct wf_paths *paths);

/* Finds the paths that match a pattern, in any order.  Sets *any to false if there are none;
 * otherwise the caller releases *out with globfree(). */
enum weft_status wf_paths_match(const char *pattern, glob_t *out, bool *any,
                                struct weft_error *err);

#endif
