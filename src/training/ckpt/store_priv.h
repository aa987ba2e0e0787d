/* What the files of the checkpoint store share: the manifest, and names in the directory. */
#ifndef TRAINING_CKPT_STORE_PRIV_H
#define TRAINING_CKPT_STORE_PRIV_H

#include <jansson.h>

#include "training/ckpt/store.h"

/* -- hashes -------------------------------------------------------------------------------- */

enum { STORE_HASH_CHARS = 32 };

/* An XXH3-128 as text, the form in which it is compared. */
struct wf_store_hash {
    char hex[STORE_HASH_CHARS + 1];
};

struct wf_store_hash wf_store_hash_bytes(const void *bytes, size_t n);

struct wf_store_hasher; /* opaque: a hash of bytes that come in blocks */

struct wf_store_hasher *wf_store_hasher_new(void); /* NULL: no memory */
void wf_store_hasher_free(struct wf_store_hasher *h);
void wf_store_hasher_reset(struct wf_store_hasher *h);
void wf_store_hasher_update(struct wf_store_hasher *h, const void *bytes, size_t n);
struct wf_store_hash wf_store_hasher_digest(const struct wf_store_hasher *h);

/* Large enough for the disk, small enough to be still in the cache when it is hashed. */
enum { STORE_BUFFER_BYTES = 1 << 20 };

/* -- the manifest -------------------------------------------------------------------------- */

enum { STORE_FILE_NAME_SIZE = 32, STORE_MAX_MANIFEST = 256 << 20 };

struct wf_manifest_file {
    char name[STORE_FILE_NAME_SIZE];
    uint64_t bytes, header_bytes;
    struct wf_store_hash header_hash;
};

/* A range of a tensor, in one file. */
struct wf_manifest_piece {
    enum wf_store_field what;
    uint64_t begin, n; /* elements of the tensor */
    size_t file;
    uint64_t at; /* its first byte in the file */
    struct wf_store_hash hash;
    unsigned char verified; /* atomic: its bytes were found to have the hash */
};

struct wf_manifest_param {
    struct wf_ckpt_param info;        /* its name is owned */
    struct wf_manifest_piece *pieces; /* owned; by what and begin once checked */
    size_t n_pieces, pieces_cap;
};

struct wf_manifest {
    uint64_t step;
    char *run, *config, *model;     /* owned */
    struct wf_manifest_file *files; /* owned */
    size_t n_files, files_cap;
    struct wf_manifest_param *params; /* owned */
    size_t n_params, params_cap;
    json_t *index; /* owned: a parameter's name -> its slot */
};

enum weft_status wf_manifest_new(uint64_t step, const char *run, const char *config,
                                 const char *model, struct wf_manifest **out,
                                 struct weft_error *err);
void wf_manifest_free(struct wf_manifest *m); /* NULL is allowed */

enum weft_status wf_manifest_add_file(struct wf_manifest *m,
                                      const struct wf_manifest_file *file,
                                      struct weft_error *err);

/* Adds a parameter, or finds it; another shape than before is an error. */
enum weft_status wf_manifest_add_param(struct wf_manifest *m, const char *name, uint32_t rank,
                                       const uint64_t *shape, size_t *slot,
                                       struct weft_error *err);
enum weft_status wf_manifest_add_piece(struct wf_manifest *m, size_t param,
                                       const struct wf_manifest_piece *piece,
                                       struct weft_error *err);

/* NULL: none. */
struct wf_manifest_param *wf_manifest_find(const struct wf_manifest *m, const char *name);

/* Adds all files and pieces of another one. */
enum weft_status wf_manifest_merge(struct wf_manifest *m, const struct wf_manifest *part,
                                   struct weft_error *err);

/* Every element of every tensor, and every byte of every file, is in just one piece.  Sorts the
 * pieces.  `source` is for messages. */
enum weft_status wf_manifest_check(struct wf_manifest *m, const char *source,
                                   struct weft_error *err);

/* As JSON whose last value is a hash of all before it. */
enum weft_status wf_manifest_print(const struct wf_manifest *m, struct wf_text *text,
                                   struct weft_error *err);

/* What is printed, read again; every changed byte is found.  It is not checked: the parts of it
 * make sense, but may not be whole. */
enum weft_status wf_manifest_parse(const char *bytes, size_t len, const char *source,
                                   struct wf_manifest **out, struct weft_error *err);

/* -- names --------------------------------------------------------------------------------- */

#define STORE_MANIFEST_FILE "manifest.json"
#define STORE_TOKENIZER_FILE "tokenizer.json" /* only in one that was made of a model */

enum { STORE_STEP_NAME_SIZE = 32, STORE_TMP_NAME_SIZE = 128 };

/* JSON's integers end at 2^63. */
#define STORE_MAX_STEP (UINT64_MAX / 4)

void wf_store_step_name(uint64_t step, char out[STORE_STEP_NAME_SIZE]);
void wf_store_file_name(uint32_t rank, char out[STORE_FILE_NAME_SIZE]);
bool wf_store_is_file_name(const char *name);
void wf_store_temporary_name(uint64_t step, const char *run, char out[STORE_TMP_NAME_SIZE]);

/* NULL when a run may have this name, else what is wrong with it. */
const char *wf_store_run_error(const char *run);

/* -- directories --------------------------------------------------------------------------- */

/* Opens ROOT itself, which may be a symbolic link, as its user likes. */
enum weft_status wf_store_open_root(const char *root, int *fd, struct weft_error *err);

/* Opens a directory in it, which may not; -1 and errno when it cannot be opened. */
int wf_store_open_subdir(int root_fd, const char *name);

/* Removes our files from a directory in ROOT, the manifest first, and then it, unless there are
 * files of others in it.  One that is not there is fine. */
enum weft_status wf_store_remove_dir(const char *root, int root_fd, const char *name,
                                     struct weft_error *err);

/* Makes the names in an open directory durable. */
enum weft_status wf_store_sync_dir(int fd, const char *path, struct weft_error *err);

/* The steps in ROOT, newest first; the caller frees *steps. */
enum weft_status wf_store_list(const char *root, int root_fd, uint64_t **steps, size_t *n,
                               struct weft_error *err);

/* Opens the checkpoint `name` in ROOT. */
enum weft_status wf_ckpt_open_at(const char *root, int root_fd, const char *name,
                                 struct wf_ckpt **out, struct weft_error *err);

#endif
