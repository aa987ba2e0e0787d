/* Writes checkpoints in three steps: each rank writes its file, one rank writes the manifest,
 * and this rank renames the directory to its final name. */
#define _GNU_SOURCE /* flock, renameat2, sync_file_range */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/size.h"
#include "training/ckpt/safetensors_priv.h"
#include "training/ckpt/store_priv.h"

enum {
    LENGTH_BYTES = 8,
    /* After this many bytes, write-back to the disk starts while the next bytes are hashed. */
    WRITEBACK_BYTES = 16 << 20,
};

struct pending {
    size_t param, piece; /* indices in the manifest */
    const float *values; /* borrowed until the file is written */
};

struct wf_store_writer {
    char *root; /* owned */
    uint32_t rank;
    int dir_fd; /* temporary directory, locked so that no other run removes it as stale */
    char *path; /* owned: path of the file, for error messages */
    char name[STORE_FILE_NAME_SIZE];
    struct wf_manifest *m;   /* owned: describes only this file */
    struct pending *pending; /* owned */
    size_t n_pending, pending_cap;
    uint64_t bytes; /* size of all pieces in bytes */
    bool finished;
};

static enum weft_status check_names(uint64_t step, const char *run, uint32_t rank,
                                    struct weft_error *err)
{
    const char *fault = wf_store_run_error(run);
    if (fault != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "the name of run '%s' %s", wf_printable(run).at,
                         fault);
    if (step > STORE_MAX_STEP || rank >= WF_STORE_MAX_FILES)
        return WEFT_FAIL(err, WEFT_USAGE, "step %" PRIu64 " or rank %" PRIu32 " is too large",
                         step, rank);
    return WEFT_OK;
}

/* -- the file of a rank -------------------------------------------------------------------- */

/* Opens the temporary directory.  Every rank calls this function; the first rank creates the
 * directory. */
static enum weft_status open_temporary(struct wf_store_writer *w, struct weft_error *err)
{
    char name[STORE_TMP_NAME_SIZE];
    int root_fd;
    wf_store_temporary_name(w->m->step, w->m->run, name);
    WEFT_TRY(wf_store_open_root(w->root, &root_fd, err));
    if (mkdirat(root_fd, name, 0777) == 0 || errno == EEXIST)
        w->dir_fd = wf_store_open_subdir(root_fd, name);
    int why = errno;
    close(root_fd);
    if (w->dir_fd < 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s/%s cannot be created: %s", w->root, name,
                         why == ELOOP ? "it is a symbolic link" : strerror(why));

    /* Errors are ignored: if directories cannot be locked, no other run removes this directory
     * as stale, because the removal needs the lock as well. */
    flock(w->dir_fd, LOCK_SH | LOCK_NB);
    size_t n = strlen(w->root) + strlen(name) + strlen(w->name) + 3;
    w->path = malloc(n);
    if (w->path == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a file");
    snprintf(w->path, n, "%s/%s/%s", w->root, name, w->name);
    return WEFT_OK;
}

enum weft_status wf_store_writer_new(const char *root, uint64_t step, const char *run,
                                     uint32_t rank, struct wf_store_writer **out,
                                     struct weft_error *err)
{
    WEFT_TRY(check_names(step, run, rank, err));
    struct wf_store_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle to write a checkpoint");

    w->dir_fd = -1;
    w->rank = rank;
    wf_store_file_name(rank, w->name);
    w->root = strdup(root);

    enum weft_status st = WEFT_OK;
    if (w->root == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a directory");
    if (st == WEFT_OK)
        st = wf_manifest_new(step, run, "", "", &w->m, err);
    if (st == WEFT_OK)
        st = open_temporary(w, err);
    if (st == WEFT_OK)
        *out = w;
    else
        wf_store_writer_free(w);
    return st;
}

void wf_store_writer_free(struct wf_store_writer *w)
{
    if (w == NULL)
        return;
    if (w->dir_fd >= 0)
        close(w->dir_fd);
    wf_manifest_free(w->m);
    free(w->pending);
    free(w->path);
    free(w->root);
    free(w);
}

static enum weft_status grow_pending(struct wf_store_writer *w, struct weft_error *err)
{
    if (w->n_pending < w->pending_cap)
        return WEFT_OK;
    size_t cap = w->pending_cap == 0 ? 64 : 2 * w->pending_cap;
    struct pending *larger = realloc(w->pending, cap * sizeof *larger);
    if (larger == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu pieces", cap);
    w->pending = larger;
    w->pending_cap = cap;
    return WEFT_OK;
}

enum weft_status wf_store_writer_add(struct wf_store_writer *w, const char *param,
                                     uint32_t n_dims, const uint64_t *shape,
                                     enum wf_store_field field, uint64_t begin,
                                     const float *values, uint64_t n, struct weft_error *err)
{
    if (w->finished || (unsigned)field >= WF_STORE_N_FIELDS)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "%.160s: '%s' is added too late or has an unknown field", w->path,
                         wf_printable(param).at);

    struct wf_manifest_piece piece = {.field = field, .begin = begin, .n = n};
    size_t slot;
    WEFT_TRY(grow_pending(w, err));
    WEFT_TRY(wf_manifest_add_param(w->m, param, n_dims, shape, &slot, err));
    WEFT_TRY(wf_manifest_add_piece(w->m, slot, &piece, err));
    w->pending[w->n_pending++] =
        (struct pending){slot, w->m->params[slot].n_pieces - 1, values};
    w->bytes += n * sizeof *values;
    return WEFT_OK;
}

static struct wf_manifest_piece *piece_of(const struct wf_store_writer *w, size_t i)
{
    return &w->m->params[w->pending[i].param].pieces[w->pending[i].piece];
}

/* Returns the name of a piece, for example "wte.weight#m@4096", or NULL if memory runs out.
 * The caller frees the name. */
static char *tensor_name(const struct wf_store_writer *w, size_t i)
{
    const struct wf_manifest_piece *p = piece_of(w, i);
    const char *param = w->m->params[w->pending[i].param].info.name;
    size_t n = strlen(param) + 32;
    char *name = malloc(n);
    if (name != NULL)
        snprintf(name, n, "%s#%s@%" PRIu64, param, wf_store_field_name(p->field), p->begin);
    return name;
}

static enum weft_status list_entries(const struct wf_store_writer *w,
                                     struct wf_safetensors_entry *entries,
                                     struct weft_error *err)
{
    for (size_t i = 0; i < w->n_pending; i++) {
        entries[i] = (struct wf_safetensors_entry){.name = tensor_name(w, i),
                                                   .type = WF_DTYPE_F32,
                                                   .n_dims = 1,
                                                   .shape = {piece_of(w, i)->n}};
        if (entries[i].name == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of %zu pieces",
                             w->n_pending);
    }
    return WEFT_OK;
}

/* Builds the header of the file.  The header contains step, run and rank, so that a file of
 * another checkpoint is detected. */
static enum weft_status make_header(const struct wf_store_writer *w, struct wf_text *text,
                                    struct weft_error *err)
{
    char step[24], rank[16];
    snprintf(step, sizeof step, "%" PRIu64, w->m->step);
    snprintf(rank, sizeof rank, "%" PRIu32, w->rank);
    struct wf_safetensors_pair pairs[] = {{"step", step}, {"run", w->m->run}, {"rank", rank}};

    struct wf_safetensors_entry *entries = calloc(w->n_pending + 1, sizeof *entries);
    if (entries == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu pieces", w->n_pending);

    struct wf_text json = {0};
    enum weft_status st = list_entries(w, entries, err);
    if (st == WEFT_OK)
        st = wf_safetensors_header(&json, entries, w->n_pending, pairs, WEFT_LEN(pairs), err);
    for (int i = 0; i < LENGTH_BYTES; i++)
        wf_text_addc(text, (char)((uint64_t)json.len >> 8 * i));
    if (st == WEFT_OK)
        wf_text_add(text, json.at, json.len);
    if (st == WEFT_OK && text->failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the header of %.160s", w->path);

    wf_text_release(&json);
    for (size_t i = 0; i < w->n_pending; i++)
        free((char *)entries[i].name);
    free(entries);
    return st;
}

static enum weft_status write_piece(int fd, const char *path, const float *values, uint64_t n,
                                    struct wf_xxh3_hasher *hasher, uint64_t *written,
                                    struct weft_error *err)
{
    const char *at = (const char *)values;
    uint64_t left = n * sizeof *values;
    while (left > 0) {
        size_t n_bytes = (size_t)(left < STORE_BUFFER_BYTES ? left : STORE_BUFFER_BYTES);
        wf_xxh3_hasher_update(hasher, at, n_bytes);
        WEFT_TRY(wf_fd_write(fd, path, at, n_bytes, err));
        uint64_t before = *written / WRITEBACK_BYTES;
        *written += n_bytes;
        if (*written / WRITEBACK_BYTES != before)
            sync_file_range(fd, (off_t)(before * WRITEBACK_BYTES), WRITEBACK_BYTES,
                            SYNC_FILE_RANGE_WRITE); /* an optimization: errors are ignored */
        at += n_bytes;
        left -= n_bytes;
    }
    return WEFT_OK;
}

static enum weft_status write_pieces(struct wf_store_writer *w, int fd, uint64_t header_bytes,
                                     struct weft_error *err)
{
    struct wf_xxh3_hasher *hasher = wf_xxh3_hasher_new();
    if (hasher == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a hash");
    enum weft_status st = WEFT_OK;
    uint64_t written = header_bytes;
    for (size_t i = 0; i < w->n_pending && st == WEFT_OK; i++) {
        struct wf_manifest_piece *p = piece_of(w, i);
        p->at = written;
        wf_xxh3_hasher_reset(hasher);
        st = write_piece(fd, w->path, w->pending[i].values, p->n, hasher, &written, err);
        p->hash = wf_xxh3_hasher_digest(hasher);
    }
    wf_xxh3_hasher_free(hasher);
    return st;
}

/* A new file. finish() makes the file durable.  On error finish() removes the file, because the
 * content of a file is unknown after a failed sync. */
struct new_file {
    int dir_fd, fd;
    const char *name, *path; /* borrowed */
};

static enum weft_status create(struct new_file *f, struct weft_error *err)
{
    f->fd =
        openat(f->dir_fd, f->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (f->fd < 0 && errno == EEXIST)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s already exists; two ranks have the same number", f->path);
    return f->fd < 0 ? wf_file_fail_write(f->path, err) : WEFT_OK;
}

static enum weft_status sync_file(const struct new_file *f, struct weft_error *err)
{
    if (fsync(f->fd) != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be synced: %s", f->path, strerror(errno));
    return WEFT_OK;
}

static enum weft_status finish(struct new_file *f, enum weft_status st, struct weft_error *err)
{
    if (f->fd < 0)
        return st;
    if (st == WEFT_OK)
        st = sync_file(f, err);
    if (close(f->fd) != 0 && st == WEFT_OK)
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be closed: %s", f->path, strerror(errno));
    if (st != WEFT_OK)
        unlinkat(f->dir_fd, f->name, 0);
    return st;
}

static enum weft_status write_file(struct wf_store_writer *w, const struct wf_text *header,
                                   struct weft_error *err)
{
    struct new_file f = {w->dir_fd, -1, w->name, w->path};
    enum weft_status st = create(&f, err);
    if (st == WEFT_OK)
        st = wf_fd_write(f.fd, w->path, header->at, header->len, err);
    if (st == WEFT_OK)
        st = write_pieces(w, f.fd, header->len, err);
    return finish(&f, st, err);
}

static enum weft_status describe(struct wf_store_writer *w, const struct wf_text *header,
                                 struct wf_text *blob, struct weft_error *err)
{
    struct wf_manifest_file file = {.bytes = header->len + w->bytes,
                                    .header_bytes = header->len,
                                    .header_hash = wf_xxh3_bytes(header->at, header->len)};
    memcpy(file.name, w->name, sizeof file.name);
    WEFT_TRY(wf_manifest_add_file(w->m, &file, err));
    return wf_manifest_print(w->m, blob, err);
}

enum weft_status wf_store_writer_finish(struct wf_store_writer *w, char **blob, size_t *bytes,
                                        struct weft_error *err)
{
    if (w->finished)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%.160s is written twice", w->path);
    w->finished = true;

    struct wf_text header = {0}, text = {0};
    enum weft_status st = make_header(w, &header, err);
    if (st == WEFT_OK)
        st = wf_store_check_space(w->root, header.len + w->bytes, err);
    if (st == WEFT_OK)
        st = write_file(w, &header, err);
    if (st == WEFT_OK)
        st = describe(w, &header, &text, err);

    wf_text_release(&header);
    if (st != WEFT_OK) {
        wf_text_release(&text);
        return st;
    }
    *blob = text.at;
    *bytes = text.len;
    return WEFT_OK;
}

/* -- the manifest -------------------------------------------------------------------------- */

/* The state of the rank that publishes the checkpoint. */
struct publishing {
    const struct wf_store_commit_info *parts;
    int root_fd, dir_fd;
    char step[STORE_STEP_NAME_SIZE], tmp[STORE_TMP_NAME_SIZE];
};

static enum weft_status merge_blob(const struct wf_store_commit_info *parts, size_t i,
                                   struct wf_manifest *m, struct weft_error *err)
{
    struct wf_manifest *part = NULL;
    char source[48];
    snprintf(source, sizeof source, "part %zu of a checkpoint", i);
    WEFT_TRY(wf_manifest_parse(parts->blobs[i], parts->blob_bytes[i], source, &part, err));
    enum weft_status st;
    if (part->step != parts->step || strcmp(part->run, parts->run) != 0)
        st = WEFT_FAIL(err, WEFT_CKPT,
                       "%s belongs to step %" PRIu64 " of run '%s', not to step %" PRIu64
                       " of '%.64s'",
                       source, part->step, part->run, parts->step, parts->run);
    else
        st = wf_manifest_merge(m, part, err);
    wf_manifest_free(part);
    return st;
}

static enum weft_status make_manifest(const struct publishing *p, struct wf_text *text,
                                      struct weft_error *err)
{
    const struct wf_store_commit_info *parts = p->parts;
    struct wf_manifest *m = NULL;
    WEFT_TRY(wf_manifest_new(parts->step, parts->run, parts->config, parts->model, &m, err));
    enum weft_status st = wf_manifest_set_data(m, parts->tokenizer, parts->data, err);
    for (size_t i = 0; i < parts->n_blobs && st == WEFT_OK; i++)
        st = merge_blob(parts, i, m, err);
    if (st == WEFT_OK)
        st = wf_manifest_check(m, p->step, err);
    if (st == WEFT_OK)
        st = wf_manifest_print(m, text, err);
    wf_manifest_free(m);
    return st;
}

static enum weft_status write_manifest(const struct publishing *p, const struct wf_text *text,
                                       struct weft_error *err)
{
    char path[STORE_TMP_NAME_SIZE + sizeof STORE_MANIFEST_FILE + 1];
    snprintf(path, sizeof path, "%s/" STORE_MANIFEST_FILE, p->tmp);
    struct new_file f = {p->dir_fd, -1, STORE_MANIFEST_FILE, path};
    enum weft_status st = create(&f, err);
    if (st == WEFT_OK)
        st = wf_fd_write(f.fd, path, text->at, text->len, err);
    WEFT_TRY(finish(&f, st, err));
    return wf_dir_sync_fd(p->dir_fd, p->tmp, err); /* makes the directory entries durable */
}

/* Replaces the checkpoint on a file system that cannot exchange two names atomically.  Between
 * the two renames there is no checkpoint of this step. */
static int replace_nonatomic(const struct publishing *p, char old[STORE_TMP_NAME_SIZE])
{
    wf_store_temporary_name(p->parts->step, "replaced", old);
    if (renameat(p->root_fd, p->step, p->root_fd, old) != 0)
        return -1;
    if (renameat(p->root_fd, p->tmp, p->root_fd, p->step) == 0)
        return 0;
    int why = errno;
    renameat(p->root_fd, old, p->root_fd, p->step);
    errno = why;
    return -1;
}

static enum weft_status rename_final(struct publishing *p, struct weft_error *err)
{
    const char *root = p->parts->root;
    char old[STORE_TMP_NAME_SIZE] = "";
    int failed = renameat(p->root_fd, p->tmp, p->root_fd, p->step);
    if (failed != 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
        failed = renameat2(p->root_fd, p->tmp, p->root_fd, p->step, RENAME_EXCHANGE);
        memcpy(old, p->tmp, sizeof old);
        if (failed != 0 && (errno == EINVAL || errno == ENOSYS))
            failed = replace_nonatomic(p, old);
    }
    if (failed != 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s/%s cannot be renamed to its final name: %s",
                         root, p->step, strerror(errno));

    WEFT_TRY(wf_dir_sync_fd(p->root_fd, root, err));
    if (old[0] != '\0')
        /* If this removal fails, the next run removes the old checkpoint. */
        wf_store_remove_dir(root, p->root_fd, old, NULL);
    return WEFT_OK;
}

static enum weft_status publish(struct publishing *p, struct weft_error *err)
{
    p->dir_fd = wf_store_open_subdir(p->root_fd, p->tmp);
    if (p->dir_fd < 0)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s/%s cannot be opened: %s", p->parts->root,
                         p->tmp, strerror(errno));
    flock(p->dir_fd, LOCK_SH | LOCK_NB);
    struct wf_text text = {0};
    enum weft_status st = make_manifest(p, &text, err);
    if (st == WEFT_OK)
        st = write_manifest(p, &text, err);
    wf_text_release(&text);
    if (st == WEFT_OK)
        st = rename_final(p, err);
    close(p->dir_fd);
    return st;
}

enum weft_status wf_store_publish(const struct wf_store_commit_info *parts,
                                  struct weft_error *err)
{
    WEFT_TRY(check_names(parts->step, parts->run, 0, err));
    struct publishing p = {.parts = parts, .root_fd = -1};
    wf_store_step_name(parts->step, p.step);
    wf_store_temporary_name(parts->step, parts->run, p.tmp);
    enum weft_status st = wf_store_open_root(parts->root, &p.root_fd, err);
    if (st == WEFT_OK)
        st = publish(&p, err);
    if (p.root_fd >= 0)
        close(p.root_fd);
    if (st != WEFT_OK)
        wf_store_abort(parts->root, parts->step, parts->run, NULL);
    return st;
}

enum weft_status wf_store_commit(const struct wf_store_commit_info *parts, size_t keep,
                                 struct weft_error *err)
{
    WEFT_TRY(wf_store_publish(parts, err));
    enum weft_status st = wf_store_verify(parts->root, parts->step, 0, 1, err);
    if (st == WEFT_CKPT) /* the checkpoint is damaged; other errors may be temporary */
        wf_store_discard(parts->root, parts->step, NULL);
    WEFT_TRY(st);

    struct weft_error why;
    st = wf_store_prune(parts->root, keep, &why);
    if (st != WEFT_OK)
        return WEFT_FAIL(err, st,
                         "the checkpoint of step %" PRIu64
                         " is valid, but older ones could not be removed: %.360s",
                         parts->step, why.msg);
    return WEFT_OK;
}
