/* Hashes whole shard files at the speed of reading.  All memory is allocated before the first
 * read, because a step must not allocate. */
#include "training/trainer/data_hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/size.h"
#include "base/text.h"
#include "runtime/comm/background.h"
#include "training/ckpt/xxh3.h"
#include "training/trainer/lines.h"

enum { PIECE = 1 << 16, LINE_SIZE = WF_XXH3_CHARS + WF_PRINTABLE_SIZE + 32 };

struct wf_data_hash {
    const struct wf_shards *shards; /* borrowed */
    struct wf_xxh3_hasher *hasher;  /* owned */
    struct wf_text text;
    bool done;
    struct wf_background work;
    atomic_bool stop;
};

enum weft_status wf_data_hash_new(const struct wf_shards *shards, struct wf_data_hash **out,
                                  struct weft_error *err)
{
    struct wf_data_hash *h = calloc(1, sizeof *h);
    size_t n = wf_shards_n_files(shards);
    if (h != NULL) {
        h->shards = shards;
        h->hasher = wf_xxh3_hasher_new();
        h->text.at = n > SIZE_MAX / LINE_SIZE - 1 ? NULL : malloc((n + 1) * LINE_SIZE);
        h->text.cap = (n + 1) * LINE_SIZE;
    }
    if (h == NULL || h->hasher == NULL || h->text.at == NULL) {
        wf_data_hash_free(h);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the hashes of %zu shards", n);
    }
    h->text.at[0] = '\0';
    *out = h;
    return WEFT_OK;
}

void wf_data_hash_free(struct wf_data_hash *h)
{
    if (h == NULL)
        return;
    atomic_store(&h->stop, true);
    wf_background_join(&h->work);
    wf_xxh3_hasher_free(h->hasher);
    wf_text_release(&h->text);
    free(h);
}

static enum weft_status hash_file(struct wf_data_hash *h, const char *path,
                                  struct weft_error *err)
{
    char piece[PIECE];
    int fd = -1;
    uint64_t bytes = 0;
    WEFT_TRY(wf_file_open(path, &fd, &bytes, err));
    enum weft_status st = WEFT_OK;
    wf_xxh3_hasher_reset(h->hasher);
    for (uint64_t at = 0; st == WEFT_OK && at < bytes;) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        st = atomic_load(&h->stop) ? WEFT_FAIL(err, WEFT_IO, "%.160s: stopped", path)
                                   : wf_file_read_at(fd, path, at, piece, n, err);
        if (st == WEFT_OK)
            wf_xxh3_hasher_update(h->hasher, piece, n);
        at += n;
    }
    close(fd);
    return st;
}

static enum weft_status hash_all(void *arg, struct weft_error *err)
{
    struct wf_data_hash *h = arg;
    for (size_t i = 0; i < wf_shards_n_files(h->shards); i++) {
        const char *path = wf_shards_path(h->shards, i);
        WEFT_TRY(hash_file(h, path, err));
        wf_text_addf(&h->text, "%s %" PRIu64 " %s\n", wf_xxh3_hasher_digest(h->hasher).hex,
                     wf_shards_file_tokens(h->shards, i), wf_printable(wf_path_name(path)).at);
    }
    if (h->text.failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the hashes of the data");
    h->done = true;
    return WEFT_OK;
}

void wf_data_hash_start(struct wf_data_hash *h)
{
    wf_background_start(&h->work, hash_all, h);
}

const char *wf_data_hash_wait(struct wf_data_hash *h)
{
    if (h == NULL)
        return "";
    wf_background_join(&h->work);
    return h->done ? h->text.at : "";
}

/* Returns true if two lines have the same hash and number of tokens.  Names may differ. */
static bool is_same(const char *a, const char *b)
{
    size_t n = strcspn(a, " \n"), m = n + (a[n] == ' ' ? 1 + strcspn(a + n + 1, " \n") : 0);
    return strncmp(a, b, m) == 0 && (b[m] == ' ' || b[m] == '\n');
}

enum weft_status wf_data_hash_compare(struct wf_data_hash *h, const char *text, uint64_t step,
                                      struct weft_error *err)
{
    size_t then = 0, now = wf_shards_n_files(h->shards);
    for (const char *at = text; *at != '\0'; at = wf_line_next(at))
        then++;
    if (then != now)
        return WEFT_FAIL(err, WEFT_DATA,
                         "data.train has %zu shards, but had %zu at the checkpoint of step "
                         "%" PRIu64 "; restore them, or set data.verify to false",
                         now, then, step);

    WEFT_TRY(hash_all(h, err));
    const char *a = h->text.at, *b = text;
    for (size_t i = 0; i < now; i++, a = wf_line_next(a), b = wf_line_next(b))
        if (!is_same(a, b))
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.200s has changed since the checkpoint of step %" PRIu64
                             "; restore it, or set data.verify to false to train with it",
                             wf_shards_path(h->shards, i), step);
    return WEFT_OK;
}
