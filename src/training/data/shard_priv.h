/* What reading and writing shards share. */
#ifndef TRAINING_DATA_SHARD_PRIV_H
#define TRAINING_DATA_SHARD_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct weft_shard_kind {
    int32_t magic, version;
    size_t width; /* bytes of a token */
};

static const struct weft_shard_kind weft_shard_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

struct weft_paths {
    char **at; /* owned, and each of them */
    size_t n;
};

/* The files that a list names, in their order; at least one. */
enum weft_status weft_paths_init(struct weft_paths *paths, const char *list,
                                 struct weft_error *err);
void weft_paths_release(struct weft_paths *paths);

#endif
