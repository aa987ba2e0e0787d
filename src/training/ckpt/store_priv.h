/* What the files of the checkpoint store share: the manifest, and names in the directory. */
#ifndef TRAINING_CKPT_STORE_PRIV_H
#define TRAINING_CKPT_STORE_PRIV_H

#include <jansson.h>

#include "training/ckpt/store.h"

/* -- hashes -------------------------------------------------------------------------------- */

enum { STORE_HASH_CHARS = 32 };

/* An XXH3-128 as text, the form in which it is compared. */
struct weft_store_hash {
    char hex[STORE_HASH_CHARS + 1];
};

struct weft_store_hash weft_store_hash_of(const void *bytes, size_t n);

struct weft_store_hasher; /* opaque: a hash of bytes that come in blocks */

struct weft_store_hasher *weft_store_hasher_new(void); /* NULL: no memory */
void weft_store_hasher_free(struct weft_store_hasher *h);
void weft_store_hasher_begin(struct weft_store_hasher *h);
void weft_store_hasher_add(struct weft_store_hasher *h, const void *bytes, size_t n);
struct weft_store_hash weft_store_hasher_end(const struct weft_store_hasher *h);

/* Large enough for the disk, small enough to be still in the cache when it is hashed. */
enum { STORE_BLOCK_BYTES = 1 << 20 };

/* -- the manifest -------------------------------------------------------------------------- */

enum { STORE_FILE_NAME = 32, STORE_MAX_MANIFEST = 256 << 20 };

struct weft_manifest_file {
    char name[STORE_FILE_NAME];
    uint64_t bytes, header_bytes;
    struct weft_store_hash header_hash;
};

/* A range of a tensor, in one file. */
struct weft_manifest_piece {
    enum weft_store_what what;
    uint64_t begin, n; /* elements of the tensor */
    size_t file;
    uint64_t at; /* its first byte in the file */
    struct weft_store_hash hash;
    unsigned char verified; /* atomic: its bytes were found to have the hash */
};

struct weft_manifest_param {
    struct weft_store_param info;       /* its name is owned */
    struct weft_manifest_piece *pieces; /* owned; by what and begin once checked */
    size_t n_pieces, pieces_cap;
};

struct weft_manifest {
    uint64_t step;
    char *run, *config, *model;       /* owned */
    struct weft_manifest_file *files; /* owned */
    size_t n_files, files_cap;
    struct weft_manifest_param *params; /* owned */
    size_t n_params, params_cap;
    json_t *index; /* owned: a parameter's name -> its place */
};

enum weft_status weft_manifest_new(uint64_t step, const char *run, const char *config,
                                   const char *model, struct weft_manifest **out,
                                   struct weft_error *err);
void weft_manifest_free(struct weft_manifest *m); /* NULL is allowed */

enum weft_status weft_manifest_add_file(struct weft_manifest *m,
                                        const struct weft_manifest_file *file,
                                        struct weft_error *err);

/* Adds a parameter, or finds it; another shape than before is an error. */
enum weft_status weft_manifest_add_param(struct weft_manifest *m, const char *name,
                                         uint32_t rank, const uint64_t *shape, size_t *place,
                                         struct weft_error *err);
enum weft_status weft_manifest_add_piece(struct weft_manifest *m, size_t param,
                                         const struct weft_manifest_piece *piece,
                                         struct weft_error *err);

/* NULL: none. */
struct weft_manifest_param *weft_manifest_find(const struct weft_manifest *m, const char *name);

/* Adds all files and pieces of another one. */
enum weft_status weft_manifest_merge(struct weft_manifest *m, const struct weft_manifest *part,
                                     struct weft_error *err);

/* Every element of every tensor, and every byte of every file, is in just one piece.  Sorts the
 * pieces.  `source` is for messages. */
enum weft_status weft_manifest_check(struct weft_manifest *m, const char *source,
                                     struct weft_error *err);

/* As JSON whose last value is a hash of all before it. */
enum weft_status weft_manifest_print(const struct weft_manifest *m, struct weft_text *text,
                                     struct weft_error *err);

/* What is printed, read again; every changed byte is found.  It is not checked: the parts of it
 * make sense, but may not be whole. */
enum weft_status weft_manifest_parse(const char *bytes, size_t len, const char *source,
                                     struct weft_manifest **out, struct weft_error *err);

/* -- names --------------------------------------------------------------------------------- */

#define STORE_MANIFEST "manifest.json"
#define STORE_TOKENIZER "tokenizer.json" /* only in one that was made of a model */

enum { STORE_STEP_NAME = 32, STORE_TEMPORARY_NAME = 128 };

/* JSON's integers end at 2^63. */
#define STORE_MAX_STEP (UINT64_MAX / 4)

void weft_store_step_name(uint64_t step, char out[STORE_STEP_NAME]);
bool weft_store_step_parse(const char *name, uint64_t *step);
void weft_store_file_name(uint32_t rank, char out[STORE_FILE_NAME]);
bool weft_store_is_file_name(const char *name);
void weft_store_temporary_name(uint64_t step, const char *run, char out[STORE_TEMPORARY_NAME]);

/* NULL when a run may have this name, else what is wrong with it. */
const char *weft_store_run_fault(const char *run);

/* -- directories --------------------------------------------------------------------------- */

/* Opens ROOT itself, which may be a symbolic link, as its user likes. */
enum weft_status weft_store_open_root(const char *root, int *fd, struct weft_error *err);

/* Opens a directory in it, which may not; -1 and errno when it cannot be opened. */
int weft_store_open_inside(int root_fd, const char *name);

/* Removes our files from a directory in ROOT, the manifest first, and then it, unless there are
 * files of others in it.  One that is not there is fine. */
enum weft_status weft_store_remove_dir(const char *root, int root_fd, const char *name,
                                       struct weft_error *err);

/* Makes the names in an open directory durable. */
enum weft_status weft_store_sync_dir(int fd, const char *path, struct weft_error *err);

/* The steps in ROOT, newest first; the caller frees *steps. */
enum weft_status weft_store_list(const char *root, int root_fd, uint64_t **steps, size_t *n,
                                 struct weft_error *err);

/* Opens the checkpoint `name` in ROOT. */
enum weft_status weft_store_open_at(const char *root, int root_fd, const char *name,
                                    struct weft_store **out, struct weft_error *err);

#endif
