/* Opens any bytes as a token shard.  Checks that all tokens and the mask of an accepted shard
 * are readable. */
#include <stdint.h>
#include <stdlib.h>

#include "memory_file.h"
#include "require.h"
#include "training/data/shard.h"

static void read_all(const struct wf_shards *s, size_t size)
{
    static int32_t tokens[64];
    uint64_t n = wf_shards_n_tokens(s);
    require(n > 0 && n <= size / 2);
    for (uint64_t at = 0; at < n; at += 64) {
        size_t now = n - at < 64 ? (size_t)(n - at) : 64;
        if (wf_shards_read(s, at, now, 1000, tokens, NULL) == WEFT_OK)
            for (size_t i = 0; i < now; i++)
                require(tokens[i] >= 0 && tokens[i] < 1000);
        require(wf_shards_mask(s, at, now, tokens, NULL) == WEFT_OK);
    }
    require(wf_shards_read(s, n, 1, 1000, tokens, NULL) == WEFT_DATA);
    require(!wf_shards_masked(s) || wf_shards_mask(s, n, 1, tokens, NULL) == WEFT_DATA);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = memory_file(data, size);
    struct wf_shards *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_shards_open(path, &s, &err);
    if (st == WEFT_OK)
        read_all(s, size);
    else
        require(s == NULL && err.msg[0] != '\0' && err.status == st);
    wf_shards_free(s);
    return 0;
}
