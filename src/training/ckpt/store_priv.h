/* Declarations shared by the files of the checkpoint store: the manifest, file names and
 * directories. */
#ifndef TRAINING_CKPT_STORE_PRIV_H
#define TRAINING_CKPT_STORE_PRIV_H

#include <jansson.h>

#include "base/step_name.h"
#include "training/ckpt/store.h"
#include "training/ckpt/xxh3.h"

/* The number of bytes per read or write: large enough for efficient disk access, and small
 * enough that the bytes are still in the CPU cache when they are hashed. */
enum { STORE_BUFFER_BYTES = 1 << 20 };

/* -- the manifest -------------------------------------------------------------------------- */

enum { STORE_FILE_NAME_SIZE = 32, STORE_MAX_MANIFEST = 256 << 20 };

struct wf_manifest_file {
    char name[STORE_FILE_NAME_SIZE];
    uint64_t bytes, header_bytes;
    struct wf_xxh3 header_hash;
};

/* A range of elements of one field of a parameter, stored in one file. */
struct wf_manifest_piece {
    enum wf_store_field field;
    uint64_t begin, n; /* range of elements: first element and number of elements */
    size_t file;
    uint64_t at; /* byte offset of the piece in the file */
    struct wf_xxh3 hash;
    /* Accessed atomically; true: the data was compared with the hash and matches. */
    unsigned char verified;
};

struct wf_manifest_param {
    struct wf_ckpt_param info; /* info.name is owned */
    /* Owned; wf_manifest_check() sorts them by field and begin. */
    struct wf_manifest_piece *pieces;
    size_t n_pieces, pieces_cap;
};

struct wf_manifest {
    uint64_t step;
    char *run, *config, *model;     /* owned */
    char *tokenizer, *data;         /* owned: see struct wf_store_commit_info */
    struct wf_manifest_file *files; /* owned */
    size_t n_files, files_cap;
    struct wf_manifest_param *params; /* owned */
    size_t n_params, params_cap;
    json_t *index; /* owned: maps a parameter's name to its slot in params */
};

/* Creates an empty manifest, without files and parameters. */
enum weft_status wf_manifest_new(uint64_t step, const char *run, const char *config,
                                 const char *model, struct wf_manifest **out,
                                 struct weft_error *err);
void wf_manifest_free(struct wf_manifest *m); /* NULL is allowed */

/* Sets the identity of the tokenizer and of the data; NULL: unknown. */
enum weft_status wf_manifest_set_data(struct wf_manifest *m, const char *tokenizer,
                                      const char *data, struct weft_error *err);

/* Adds a file to the manifest. */
enum weft_status wf_manifest_add_file(struct wf_manifest *m,
                                      const struct wf_manifest_file *file,
                                      struct weft_error *err);

/* Adds a parameter, or finds the existing parameter with this name.  Returns WEFT_CKPT if the
 * existing parameter has another shape. */
enum weft_status wf_manifest_add_param(struct wf_manifest *m, const char *name, uint32_t n_dims,
                                       const uint64_t *shape, size_t *slot,
                                       struct weft_error *err);

/* Adds a piece of a parameter.  Returns WEFT_CKPT if the piece exceeds the range of the
 * parameter. */
enum weft_status wf_manifest_add_piece(struct wf_manifest *m, size_t param,
                                       const struct wf_manifest_piece *piece,
                                       struct weft_error *err);

/* Returns the parameter with this name, or NULL if there is none. */
struct wf_manifest_param *wf_manifest_find(const struct wf_manifest *m, const char *name);

/* Adds all files, parameters and pieces of the manifest `part` to m. */
enum weft_status wf_manifest_merge(struct wf_manifest *m, const struct wf_manifest *part,
                                   struct weft_error *err);

/* Returns WEFT_CKPT unless every element of every tensor and every data byte of every file
 * belongs to exactly one piece.  Sorts the pieces.  `source` is the name used in error
 * messages. */
enum weft_status wf_manifest_check(struct wf_manifest *m, const char *source,
                                   struct weft_error *err);

/* Appends the manifest as JSON to `text`.  The last JSON value is a hash of all bytes before
 * the hash. */
enum weft_status wf_manifest_print(const struct wf_manifest *m, struct wf_text *text,
                                   struct weft_error *err);

/* Parses the output of wf_manifest_print() and detects every changed byte.  Checks each value
 * separately; wf_manifest_check() checks that the values are consistent. */
enum weft_status wf_manifest_parse(const char *bytes, size_t len, const char *source,
                                   struct wf_manifest **out, struct weft_error *err);

/* -- names --------------------------------------------------------------------------------- */

#define STORE_MANIFEST_FILE "manifest.json"
#define STORE_TOKENIZER_FILE "tokenizer.json" /* only in converted checkpoints */

enum { STORE_STEP_NAME_SIZE = WF_STEP_NAME_SIZE, STORE_TMP_NAME_SIZE = 128 };

/* The maximum step number: less than 2^63, the limit of JSON integers. */
#define STORE_MAX_STEP (UINT64_MAX / 4)

/* Prints the name of a checkpoint: step-00000120. */
void wf_store_step_name(uint64_t step, char out[STORE_STEP_NAME_SIZE]);
/* Prints the name of a rank's file: rank-00001.safetensors. */
void wf_store_file_name(uint32_t rank, char out[STORE_FILE_NAME_SIZE]);
/* Prints the name of a checkpoint that is being written: .step-00000130.RUN.tmp. */
void wf_store_temporary_name(uint64_t step, const char *run, char out[STORE_TMP_NAME_SIZE]);

/* Returns true for names that wf_store_file_name() prints. */
bool wf_store_is_file_name(const char *name);

/* Returns NULL if `run` is a valid run name, otherwise a description of the error. */
const char *wf_store_run_error(const char *run);

/* -- directories --------------------------------------------------------------------------- */

/* Opens ROOT, which may be a symbolic link. */
enum weft_status wf_store_open_root(const char *root, int *fd, struct weft_error *err);

/* Opens the directory `name` in ROOT; `name` must not be a symbolic link.  Returns -1 and sets
 * errno on error. */
int wf_store_open_subdir(int root_fd, const char *name);

/* Removes the checkpoint files from the directory `name` in ROOT, the manifest first.  Then
 * removes the directory itself, unless it contains other files.  A missing directory is not an
 * error. */
enum weft_status wf_store_remove_dir(const char *root, int root_fd, const char *name,
                                     struct weft_error *err);

/* Lists the step numbers of the checkpoints in ROOT, newest first.  The caller frees *steps. */
enum weft_status wf_store_list(const char *root, int root_fd, uint64_t **steps, size_t *n,
                               struct weft_error *err);

/* Opens the checkpoint `name` in ROOT. */
enum weft_status wf_ckpt_open_at(const char *root, int root_fd, const char *name,
                                 struct wf_ckpt **out, struct weft_error *err);

#endif
