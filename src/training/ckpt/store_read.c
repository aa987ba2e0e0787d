/* Reads checkpoints.  Each file is opened when it is needed and closed afterwards, because a
 * checkpoint may have more files than a process can have open. */
#define _GNU_SOURCE /* posix_fadvise constants */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/size.h"
#include "training/ckpt/store_priv.h"

struct wf_ckpt {
    char *path;                   /* owned */
    int fd;                       /* descriptor of the checkpoint directory */
    struct wf_manifest *m;        /* owned */
    struct piece_ref *piece_refs; /* owned: all pieces, sorted by file and offset */
    size_t n_piece_refs;
};

struct piece_ref {
    size_t file;
    uint64_t at;
    size_t param, piece;
};

/* -- files --------------------------------------------------------------------------------- */

/* Opens a regular file in the checkpoint directory.  Does not follow symbolic links and does
 * not block on a pipe. */
static enum weft_status open_file(const struct wf_ckpt *s, const char *name, int *out,
                                  uint64_t *size, struct weft_error *err)
{
    int fd = openat(s->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %s is missing", s->path, name);

    struct stat st;
    bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if ((fd < 0 && (errno == ELOOP || errno == ENXIO)) || (fd >= 0 && !regular)) {
        if (fd >= 0)
            close(fd);
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %s is not a regular file", s->path, name);
    }
    if (fd < 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s: %s cannot be opened: %s", s->path, name,
                         strerror(errno));

    *out = fd;
    *size = (uint64_t)st.st_size;
    return WEFT_OK;
}

static enum weft_status open_shard(const struct wf_ckpt *s, size_t file, int *fd,
                                   struct weft_error *err)
{
    const struct wf_manifest_file *f = &s->m->files[file];
    uint64_t size;
    WEFT_TRY(open_file(s, f->name, fd, &size, err));
    if (size == f->bytes)
        return WEFT_OK;
    close(*fd);
    return WEFT_FAIL(err, WEFT_CKPT, "%.160s: %s has %" PRIu64 " bytes (expected %" PRIu64 ")",
                     s->path, f->name, size, f->bytes);
}

static enum weft_status read_manifest(struct wf_ckpt *s, struct weft_error *err)
{
    int fd;
    uint64_t size;
    WEFT_TRY(open_file(s, STORE_MANIFEST_FILE, &fd, &size, err));
    char *path = wf_path_join(s->path, STORE_MANIFEST_FILE);
    char *bytes = size <= STORE_MAX_MANIFEST ? malloc((size_t)size + 1) : NULL;
    enum weft_status st;
    if (size > STORE_MAX_MANIFEST)
        st = WEFT_FAIL(err, WEFT_CKPT, "%.160s: its manifest is too long", s->path);
    else if (path == NULL || bytes == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory for a manifest of %" PRIu64 " bytes",
                       s->path, size);
    else
        st = wf_file_read_at(fd, path, 0, bytes, (size_t)size, err);
    close(fd);

    if (st == WEFT_OK)
        st = wf_manifest_parse(bytes, (size_t)size, path, &s->m, err);
    if (st == WEFT_OK)
        st = wf_manifest_check(s->m, path, err);
    free(path);
    free(bytes);
    return st;
}

/* Hashes the n bytes of a file that start at offset `at`. */
static enum weft_status hash_range(const struct wf_ckpt *s, int fd, const char *name,
                                   uint64_t at, uint64_t n, struct wf_xxh3 *hash,
                                   struct weft_error *err)
{
    struct wf_xxh3_hasher *hasher = wf_xxh3_hasher_new();
    char *block = malloc(STORE_BUFFER_BYTES);
    char *path = wf_path_join(s->path, name);
    enum weft_status st = WEFT_OK;
    if (hasher == NULL || block == NULL || path == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a buffer to read %.160s", s->path);
    else
        wf_xxh3_hasher_reset(hasher);

    while (st == WEFT_OK && n > 0) {
        size_t part = (size_t)(n < STORE_BUFFER_BYTES ? n : STORE_BUFFER_BYTES);
        st = wf_file_read_at(fd, path, at, block, part, err);
        if (st == WEFT_OK)
            wf_xxh3_hasher_update(hasher, block, part);
        at += part;
        n -= part;
    }
    if (st == WEFT_OK)
        *hash = wf_xxh3_hasher_digest(hasher);
    if (hasher != NULL)
        wf_xxh3_hasher_free(hasher);
    free(block);
    free(path);
    return st;
}

static bool same_hash(const struct wf_xxh3 *a, const struct wf_xxh3 *b)
{
    return memcmp(a->hex, b->hex, WF_XXH3_CHARS) == 0;
}

static enum weft_status check_header(const struct wf_ckpt *s, size_t file, int fd,
                                     struct weft_error *err)
{
    const struct wf_manifest_file *f = &s->m->files[file];
    struct wf_xxh3 hash;
    WEFT_TRY(hash_range(s, fd, f->name, 0, f->header_bytes, &hash, err));
    if (!same_hash(&hash, &f->header_hash))
        return WEFT_FAIL(
            err, WEFT_CKPT,
            "%.160s: %s: its header was changed, or it belongs to another checkpoint", s->path,
            f->name);
    return WEFT_OK;
}

static enum weft_status check_headers(const struct wf_ckpt *s, struct weft_error *err)
{
    for (size_t i = 0; i < s->m->n_files; i++) {
        int fd;
        WEFT_TRY(open_shard(s, i, &fd, err));
        enum weft_status st = check_header(s, i, fd, err);
        close(fd);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

/* Returns an error if the directory has rank files that the manifest does not list, which means
 * that two checkpoints were mixed. */
static enum weft_status check_unknown_files(const struct wf_ckpt *s, struct weft_error *err)
{
    json_t *known = json_object();
    for (size_t i = 0; known != NULL && i < s->m->n_files; i++)
        if (json_object_set_new(known, s->m->files[i].name, json_true()) != 0) {
            json_decref(known);
            known = NULL;
        }
    if (known == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu files", s->m->n_files);

    int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    enum weft_status st = WEFT_OK;
    if (dir == NULL) {
        st = WEFT_FAIL(err, WEFT_IO, "%.160s cannot be listed: %s", s->path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }

    while (dir != NULL && st == WEFT_OK) {
        struct dirent *e = readdir(dir);
        if (e == NULL)
            break;
        if (wf_store_is_file_name(e->d_name) && json_object_get(known, e->d_name) == NULL)
            st = WEFT_FAIL(err, WEFT_CKPT,
                           "%.160s: %s does not belong to this checkpoint; remove it", s->path,
                           e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    json_decref(known);
    return st;
}

/* -- pieces -------------------------------------------------------------------------------- */

static bool is_verified(const struct wf_manifest_piece *p)
{
    return __atomic_load_n(&p->verified, __ATOMIC_ACQUIRE) != 0;
}

static enum weft_status compare_piece(const struct wf_ckpt *s,
                                      const struct wf_manifest_param *param,
                                      struct wf_manifest_piece *p, const struct wf_xxh3 *hash,
                                      struct weft_error *err)
{
    if (!same_hash(hash, &p->hash))
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: %s: '%s' of parameter '%s', elements %" PRIu64 " .. %" PRIu64
                         ", does not match its hash; the file was changed",
                         s->path, s->m->files[p->file].name, wf_store_field_name(p->field),
                         wf_printable(param->info.name).at, p->begin, p->begin + p->n - 1);
    __atomic_store_n(&p->verified, 1, __ATOMIC_RELEASE);
    return WEFT_OK;
}

static enum weft_status verify_piece(const struct wf_ckpt *s,
                                     const struct wf_manifest_param *param,
                                     struct wf_manifest_piece *p, int fd,
                                     struct weft_error *err)
{
    struct wf_xxh3 hash;
    WEFT_TRY(
        hash_range(s, fd, s->m->files[p->file].name, p->at, p->n * sizeof(float), &hash, err));
    return compare_piece(s, param, p, &hash, err);
}

static int compare_piece_refs(const void *a, const void *b)
{
    const struct piece_ref *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorts all pieces by file and offset, so that files are read sequentially. */
static enum weft_status list_piece_refs(struct wf_ckpt *s, struct weft_error *err)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < s->m->n_params; i++)
        n += s->m->params[i].n_pieces;
    s->piece_refs = calloc(n, sizeof *s->piece_refs);
    if (s->piece_refs == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu pieces", n);
    for (size_t i = 0; i < s->m->n_params; i++)
        for (size_t j = 0; j < s->m->params[i].n_pieces; j++) {
            const struct wf_manifest_piece *p = &s->m->params[i].pieces[j];
            s->piece_refs[k++] = (struct piece_ref){p->file, p->at, i, j};
        }
    qsort(s->piece_refs, n, sizeof *s->piece_refs, compare_piece_refs);
    s->n_piece_refs = n;
    return WEFT_OK;
}

/* Verifies the pieces of one file.  Starts at piece_refs[*first] and sets *first to the
 * index after the last piece of the file. */
static enum weft_status verify_file(const struct wf_ckpt *s, size_t file, size_t *first,
                                    bool from_disk, struct weft_error *err)
{
    int fd;
    WEFT_TRY(open_shard(s, file, &fd, err));
    /* Drop the page cache of the file, so that a file that was just written is read from the
     * disk. */
    if (from_disk)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);

    enum weft_status st = check_header(s, file, fd, err);
    size_t i = *first;
    for (; i < s->n_piece_refs && s->piece_refs[i].file <= file && st == WEFT_OK; i++) {
        struct wf_manifest_param *param = &s->m->params[s->piece_refs[i].param];
        if (s->piece_refs[i].file == file)
            st = verify_piece(s, param, &param->pieces[s->piece_refs[i].piece], fd, err);
    }
    *first = i;
    close(fd);
    return st;
}

/* Verifies every n_parts-th file, starting with file number `part`. */
static enum weft_status verify_files(struct wf_ckpt *s, size_t part, size_t n_parts,
                                     bool from_disk, struct weft_error *err)
{
    size_t first = 0;
    WEFT_TRY(list_piece_refs(s, err));
    for (size_t i = part; i < s->m->n_files; i += n_parts)
        WEFT_TRY(verify_file(s, i, &first, from_disk, err));
    return WEFT_OK;
}

enum weft_status wf_store_verify(const char *root, uint64_t step, size_t part, size_t n_parts,
                                 struct weft_error *err)
{
    char name[STORE_STEP_NAME_SIZE];
    int root_fd;
    struct wf_ckpt *s = NULL;
    if (n_parts == 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "a checkpoint cannot be verified in 0 parts");
    wf_store_step_name(step, name);
    WEFT_TRY(wf_store_open_root(root, &root_fd, err));
    enum weft_status st = wf_ckpt_open_at(root, root_fd, name, &s, err);
    if (st == WEFT_OK)
        st = verify_files(s, part, n_parts, true, err);
    wf_ckpt_free(s);
    close(root_fd);
    return st;
}

/* Reads the elements from .. from + n - 1 of one piece.  An unverified piece is compared with
 * its hash: during the read if the whole piece is read, otherwise in a separate pass before the
 * read. */
static enum weft_status read_piece(struct wf_ckpt *s, const struct wf_manifest_param *param,
                                   struct wf_manifest_piece *p, uint64_t from, uint64_t n,
                                   float *out, struct weft_error *err)
{
    int fd;
    bool hash_out = n == p->n && !is_verified(p);
    WEFT_TRY(open_shard(s, p->file, &fd, err));
    enum weft_status st = WEFT_OK;
    if (!hash_out && !is_verified(p))
        st = verify_piece(s, param, p, fd, err);

    char *path = wf_path_join(s->path, s->m->files[p->file].name);
    struct wf_xxh3_hasher *hasher = hash_out ? wf_xxh3_hasher_new() : NULL;
    if (st == WEFT_OK && (path == NULL || (hash_out && hasher == NULL)))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a hash");
    if (hasher != NULL)
        wf_xxh3_hasher_reset(hasher);

    char *to = (char *)out;
    uint64_t at = p->at + (from - p->begin) * sizeof *out, left = n * sizeof *out;
    if (st == WEFT_OK) /* let the disk read ahead during hashing */
        posix_fadvise(fd, (off_t)at, (off_t)left, POSIX_FADV_WILLNEED);
    while (st == WEFT_OK && left > 0) {
        size_t block = (size_t)(left < STORE_BUFFER_BYTES ? left : STORE_BUFFER_BYTES);
        st = wf_file_read_at(fd, path, at, to, block, err);
        if (st == WEFT_OK && hash_out)
            wf_xxh3_hasher_update(hasher, to, block);
        to += block;
        at += block;
        left -= block;
    }

    if (st == WEFT_OK && hash_out) {
        struct wf_xxh3 hash = wf_xxh3_hasher_digest(hasher);
        st = compare_piece(s, param, p, &hash, err);
    }
    if (hasher != NULL)
        wf_xxh3_hasher_free(hasher);
    free(path);
    close(fd);
    return st;
}

enum weft_status wf_ckpt_read(struct wf_ckpt *s, const char *name, enum wf_store_field field,
                              uint64_t begin, uint64_t n, float *out, struct weft_error *err)
{
    struct wf_manifest_param *param = wf_manifest_find(s->m, name);
    if (param == NULL || (unsigned)field >= WF_STORE_N_FIELDS || !param->info.has[field])
        return WEFT_FAIL(err, WEFT_CKPT, "%.160s has no '%s' of parameter '%s'", s->path,
                         wf_store_field_name(field), wf_printable(name).at);
    if (n > param->info.n || begin > param->info.n - n)
        return WEFT_FAIL(err, WEFT_CKPT,
                         "%.160s: parameter '%s' has %" PRIu64 " elements; %" PRIu64
                         " from %" PRIu64 " are out of range",
                         s->path, wf_printable(name).at, param->info.n, n, begin);

    for (size_t i = 0; i < param->n_pieces && n > 0; i++) {
        /* Pieces are sorted by field and begin. */
        struct wf_manifest_piece *p = &param->pieces[i];
        if (p->field != field || begin < p->begin || begin - p->begin >= p->n)
            continue;
        uint64_t left = p->n - (begin - p->begin), part = n < left ? n : left;
        WEFT_TRY(read_piece(s, param, p, begin, part, out, err));
        begin += part;
        out += part;
        n -= part;
    }
    return WEFT_OK;
}

/* -- opening ------------------------------------------------------------------------------- */

void wf_ckpt_free(struct wf_ckpt *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        close(s->fd);
    wf_manifest_free(s->m);
    free(s->piece_refs);
    free(s->path);
    free(s);
}

/* Opens a checkpoint.  Takes ownership of fd and path, also on error. */
static enum weft_status open_owned_fd(int fd, char *path, const char *name,
                                      struct wf_ckpt **out, struct weft_error *err)
{
    struct wf_ckpt *s = calloc(1, sizeof *s);
    if (s == NULL || path == NULL) {
        free(s);
        free(path);
        close(fd);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a handle to read a checkpoint");
    }
    s->fd = fd;
    s->path = path;

    uint64_t step;
    enum weft_status st = read_manifest(s, err);
    if (st == WEFT_OK && wf_store_parse_step(name, &step) && step != s->m->step)
        st = WEFT_FAIL(err, WEFT_CKPT, "%.160s: its manifest is of step %" PRIu64, s->path,
                       s->m->step);
    if (st == WEFT_OK)
        st = check_headers(s, err);
    if (st == WEFT_OK)
        st = check_unknown_files(s, err);
    if (st == WEFT_OK)
        *out = s;
    else
        wf_ckpt_free(s);
    return st;
}

enum weft_status wf_ckpt_open_at(const char *root, int root_fd, const char *name,
                                 struct wf_ckpt **out, struct weft_error *err)
{
    int fd = wf_store_open_subdir(root_fd, name);
    if (fd < 0) {
        bool missing = errno == ELOOP || errno == ENOTDIR || errno == ENOENT;
        return WEFT_FAIL(err, missing ? WEFT_CKPT : WEFT_IO, "%.160s/%s cannot be opened: %s",
                         root, name, errno == ELOOP ? "not a directory" : strerror(errno));
    }
    return open_owned_fd(fd, wf_path_join(root, name), name, out, err);
}

enum weft_status wf_ckpt_open(const char *path, bool verify, struct wf_ckpt **out,
                              struct weft_error *err)
{
    char *trimmed = wf_path_trim(path);
    if (trimmed == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the path of a checkpoint");
    int fd = open(trimmed, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        free(trimmed);
        return WEFT_FAIL(err, errno == ENOENT || errno == ENOTDIR ? WEFT_CKPT : WEFT_IO,
                         "%.160s cannot be opened: %s", path, strerror(errno));
    }

    const char *slash = strrchr(trimmed, '/');
    struct wf_ckpt *s = NULL;
    WEFT_TRY(open_owned_fd(fd, trimmed, slash == NULL ? trimmed : slash + 1, &s, err));
    enum weft_status st = verify ? verify_files(s, 0, 1, false, err) : WEFT_OK;
    if (st == WEFT_OK)
        *out = s;
    else
        wf_ckpt_free(s);
    return st;
}

static enum weft_status find_newest(const char *root, int root_fd, const uint64_t *steps,
                                    size_t n, uint64_t below, bool verify, struct wf_ckpt **out,
                                    struct wf_text *skipped, struct weft_error *err)
{
    struct weft_error why = {.msg = ""}, first = {.msg = "there is no older one"};
    bool tried = false;

    for (size_t i = 0; i < n; i++) {
        char name[STORE_STEP_NAME_SIZE];
        struct wf_ckpt *s = NULL;
        if (steps[i] >= below)
            continue;

        wf_store_step_name(steps[i], name);
        enum weft_status st = wf_ckpt_open_at(root, root_fd, name, &s, &why);
        if (st == WEFT_OK && verify)
            st = verify_files(s, 0, 1, false, &why);
        if (st == WEFT_OK) {
            *out = s;
            return WEFT_OK;
        }

        wf_ckpt_free(s);
        if (st == WEFT_NOMEM) /* the checkpoint itself may be valid */
            return WEFT_FAIL(err, st, "%s", why.msg);
        if (skipped != NULL)
            wf_text_addf(skipped, "%s\n", why.msg);
        if (!tried)
            first = why;
        tried = true;
    }

    return WEFT_FAIL(err, WEFT_CKPT,
                     "none of the %zu checkpoints in %.160s can be used: %.200s", n, root,
                     first.msg);
}

enum weft_status wf_ckpt_open_newest(const char *root, bool verify, struct wf_ckpt **out,
                                     struct wf_text *skipped, struct weft_error *err)
{
    return wf_ckpt_open_newest_below(root, UINT64_MAX, verify, out, skipped, err);
}

enum weft_status wf_ckpt_open_newest_below(const char *root, uint64_t below, bool verify,
                                           struct wf_ckpt **out, struct wf_text *skipped,
                                           struct weft_error *err)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *out = NULL;
        return WEFT_OK;
    }
    if (fd < 0)
        return WEFT_FAIL(err, WEFT_IO, "%.160s cannot be opened: %s", root, strerror(errno));

    uint64_t *steps = NULL;
    size_t n = 0;
    struct wf_ckpt *found = NULL;
    enum weft_status st = wf_store_list(root, fd, &steps, &n, err);
    if (st == WEFT_OK && n > 0)
        st = find_newest(root, fd, steps, n, below, verify, &found, skipped, err);
    free(steps);
    close(fd);
    if (st == WEFT_OK)
        *out = found;
    return st;
}

/* -- getters ------------------------------------------------------------------------------- */

const char *wf_ckpt_path(const struct wf_ckpt *s)
{
    return s->path;
}

uint64_t wf_ckpt_step(const struct wf_ckpt *s)
{
    return s->m->step;
}

const char *wf_ckpt_run(const struct wf_ckpt *s)
{
    return s->m->run;
}

const char *wf_ckpt_tokenizer(const struct wf_ckpt *s)
{
    return s->m->tokenizer == NULL ? "" : s->m->tokenizer;
}

const char *wf_ckpt_data(const struct wf_ckpt *s)
{
    return s->m->data == NULL ? "" : s->m->data;
}

const char *wf_ckpt_config(const struct wf_ckpt *s)
{
    return s->m->config;
}

const char *wf_ckpt_model(const struct wf_ckpt *s)
{
    return s->m->model;
}

size_t wf_ckpt_count(const struct wf_ckpt *s)
{
    return s->m->n_params;
}

const struct wf_ckpt_param *wf_ckpt_at(const struct wf_ckpt *s, size_t i)
{
    return &s->m->params[i].info;
}

const struct wf_ckpt_param *wf_ckpt_find(const struct wf_ckpt *s, const char *name)
{
    const struct wf_manifest_param *p = wf_manifest_find(s->m, name);
    return p == NULL ? NULL : &p->info;
}
