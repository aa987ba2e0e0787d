/* Stores the checkpoints of a run: a directory with one subdirectory per checkpoint.  A
 * checkpoint contains all data that a run needs to resume.  The data is indexed by tensor name
 * and is independent of the number and the layout of ranks.
 *
 *     ROOT/step-00000120/manifest.json            list of files and pieces with their hashes
 *                        rank-00000.safetensors   pieces of tensors: "wte.weight#m@4096"
 *                        rank-00001.safetensors
 *     ROOT/.step-00000130.RUN.tmp/                a checkpoint that is being written
 *
 * Saving: every rank writes one file and gets a blob that describes the file.  One rank
 * collects the blobs and commits the checkpoint.
 *
 *     every rank   WEFT_TRY(wf_store_writer_new(root, step, run, rank, &w, err));
 *                  WEFT_TRY(wf_store_writer_add(w, "wte.weight", 2, shape,
 *                                               WF_STORE_FIELD_VALUE, begin, values, n, err));
 *                  ... and so on
 *                  WEFT_TRY(wf_store_writer_finish(w, &blob, &bytes, err));
 *     one rank     WEFT_TRY(wf_store_commit(&all, keep, err));
 *     every rank   wf_store_writer_free(w);
 *
 * A checkpoint exists once its directory has its final name, and all of its bytes are then
 * durable.  A crash before this point leaves the older checkpoints unchanged.  If a rank fails,
 * wf_store_abort() removes the files of the other ranks.
 *
 * Resuming: open the newest valid checkpoint, then read any range of any tensor.
 *
 *     WEFT_TRY(wf_ckpt_open_newest(root, true, &store, &skipped, err));
 *     if (store != NULL)
 *         st = wf_ckpt_read(store, "wte.weight", WF_STORE_FIELD_M, begin, n, out, err);
 *     wf_ckpt_free(store);
 *
 * Files are untrusted input: each piece is compared with its hash before its values are
 * returned.  Symbolic links, pipes and files outside of the directory are not opened.  The
 * position in the training data is not stored, because the step number determines batches and
 * random numbers.
 *
 * All functions are Local and may be called from any thread.  A writer must be used by only
 * one thread at a time.
 */
#ifndef TRAINING_CKPT_STORE_H
#define TRAINING_CKPT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "weft/status.h"

enum {
    WF_STORE_MAX_DIMS = 8,
    /* Maximum length of a run name; allowed: letters, digits, '.', '_', '-'. */
    WF_STORE_MAX_RUN = 64,
    WF_STORE_MAX_FILES = 100000,
};

/* The fields stored per parameter: the value and the two optimizer moments. */
enum wf_store_field {
    WF_STORE_FIELD_VALUE,
    WF_STORE_FIELD_M,
    WF_STORE_FIELD_V,
    WF_STORE_N_FIELDS
};

/* Returns the name of a field: "value", "m" or "v". */
const char *wf_store_field_name(enum wf_store_field field);

/* -- the directory ------------------------------------------------------------------------- */

/* Creates ROOT, whose parent must exist.  Checks that files in ROOT can be written, synced and
 * renamed, so that a run fails at its start and not at its first checkpoint.  Removes the
 * unfinished checkpoints of other runs unless a process has them open.  Appends one line per
 * removed checkpoint to `removed`, which may be NULL. */
enum weft_status wf_store_prepare(const char *root, struct wf_text *removed,
                                  struct weft_error *err);

struct wf_store_lock; /* opaque */

/* Locks the file `lock` in `dir` for this process.  If another process has the lock, returns
 * WEFT_USAGE with a message that names the owner of the lock.  The system releases the lock
 * when the process ends. */
enum weft_status wf_store_lock(const char *dir, struct wf_store_lock **out,
                               struct weft_error *err);
void wf_store_unlock(struct wf_store_lock *lock); /* NULL is allowed */

/* Returns 1 if a process has the lock of `dir`, 0 if no process has the lock, and -1 if this
 * cannot be determined, for example because there is no lock file. */
int wf_store_is_locked(const char *dir);

/* Returns WEFT_IO if the file system of ROOT has fewer than `bytes` free bytes.  The message
 * contains the free and the required size.  Each writer checks the space for its own file.
 * Ranks that share a disk should first check the space for the sum of their files. */
enum weft_status wf_store_check_space(const char *root, uint64_t bytes, struct weft_error *err);

/* Keeps the `keep` (1 or more) newest checkpoints that have a valid manifest and correct file
 * sizes, and removes all checkpoints that are older, including damaged ones.  Removes nothing
 * if there are fewer than `keep` such checkpoints.  Call this function after the newest
 * checkpoint has been verified. */
enum weft_status wf_store_prune(const char *root, size_t keep, struct weft_error *err);

/* Parses the name of a checkpoint directory, for example step-00000120.  Returns false for
 * every other name, including other spellings of the same number, such as step-120. */
bool wf_store_parse_step(const char *name, uint64_t *step);

/* Removes one checkpoint. */
enum weft_status wf_store_discard(const char *root, uint64_t step, struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_store_writer; /* opaque */

/* Starts the file of one rank.  `run` is the name of the run: equal on all ranks of a run, and
 * different for each run. */
enum weft_status wf_store_writer_new(const char *root, uint64_t step, const char *run,
                                     uint32_t rank, struct wf_store_writer **out,
                                     struct weft_error *err);

/* Adds the elements begin .. begin + n - 1 (n >= 1) of a parameter with the given shape.
 * wf_store_writer_finish() writes the elements; `values` is borrowed until it returns. */
enum weft_status wf_store_writer_add(struct wf_store_writer *w, const char *param,
                                     uint32_t n_dims, const uint64_t *shape,
                                     enum wf_store_field field, uint64_t begin,
                                     const float *values, uint64_t n, struct weft_error *err);

/* Writes the file and makes it durable.  Removes the file on error.  *blob is a description of
 * the file for wf_store_commit(); the caller frees *blob. */
enum weft_status wf_store_writer_finish(struct wf_store_writer *w, char **blob, size_t *bytes,
                                        struct weft_error *err);

/* Frees the writer.  While the writer exists, no other run removes the temporary directory.
 * NULL is allowed. */
void wf_store_writer_free(struct wf_store_writer *w);

struct wf_store_commit_info {
    const char *root;
    uint64_t step;
    const char *run;
    const char *config; /* settings of the run, in UTF-8 */
    const char *model;  /* config.json of the model, in UTF-8 */
    const char *const *blobs;
    const size_t *blob_bytes;
    size_t n_blobs; /* number of blobs: one blob per rank, in any order */
    /* Text that identifies the tokenizer and the training data; NULL or empty: unknown. */
    const char *tokenizer, *data;
};

/* Checks that the pieces of all ranks cover every tensor exactly once, writes the manifest, and
 * renames the directory to its final name.  Atomically replaces an older checkpoint of the same
 * step.  On error removes the temporary directory and leaves all other checkpoints
 * unchanged. */
enum weft_status wf_store_publish(const struct wf_store_commit_info *parts,
                                  struct weft_error *err);

/* Reads every n_parts-th file of a checkpoint from the disk, starting with file number `part`,
 * and compares the data with its hashes.  Several ranks can thus divide the work.  With
 * part = 0 and n_parts = 1 the whole checkpoint is verified. */
enum weft_status wf_store_verify(const char *root, uint64_t step, size_t part, size_t n_parts,
                                 struct weft_error *err);

/* Calls wf_store_publish(), wf_store_verify() and wf_store_prune().  Discards the new
 * checkpoint if its verification fails. */
enum weft_status wf_store_commit(const struct wf_store_commit_info *parts, size_t keep,
                                 struct weft_error *err);

/* Removes the temporary directory of a step, if the directory exists. */
enum weft_status wf_store_abort(const char *root, uint64_t step, const char *run,
                                struct weft_error *err);

/* -- reading ------------------------------------------------------------------------------- */

struct wf_ckpt; /* opaque: one checkpoint */

/* Opens a checkpoint directory and checks the manifest and the sizes and headers of all files.
 * If `verify` is true, also compares all values with their hashes; later reads then skip this
 * comparison.  Returns WEFT_CKPT for a damaged checkpoint; the message names the checkpoint,
 * the file and the tensor. */
enum weft_status wf_ckpt_open(const char *path, bool verify, struct wf_ckpt **out,
                              struct weft_error *err);

/* Opens the newest valid checkpoint in ROOT.  Sets *out to NULL if ROOT does not exist or has
 * no checkpoints.  Appends one line per skipped checkpoint to `skipped`, which may be NULL.
 * Returns WEFT_CKPT if all checkpoints were skipped. */
enum weft_status wf_ckpt_open_newest(const char *root, bool verify, struct wf_ckpt **out,
                                     struct wf_text *skipped, struct weft_error *err);
/* Opens the newest valid checkpoint before step `below`, for callers that could not use a newer
 * checkpoint.  Returns WEFT_CKPT if ROOT has only newer checkpoints. */
enum weft_status wf_ckpt_open_newest_below(const char *root, uint64_t below, bool verify,
                                           struct wf_ckpt **out, struct wf_text *skipped,
                                           struct weft_error *err);
void wf_ckpt_free(struct wf_ckpt *s); /* NULL is allowed */

/* Strings that these functions return are borrowed until the checkpoint is freed. */

/* Returns the path of the checkpoint. */
const char *wf_ckpt_path(const struct wf_ckpt *s);
/* Returns the number of steps that were completed. */
uint64_t wf_ckpt_step(const struct wf_ckpt *s);
/* Returns the name of the run. */
const char *wf_ckpt_run(const struct wf_ckpt *s);
/* Returns the settings of the run. */
const char *wf_ckpt_config(const struct wf_ckpt *s);
/* Returns the config.json of the model. */
const char *wf_ckpt_model(const struct wf_ckpt *s);
/* Returns the text that identifies the tokenizer; empty: unknown. */
const char *wf_ckpt_tokenizer(const struct wf_ckpt *s);
/* Returns the text that identifies the training data; empty: unknown. */
const char *wf_ckpt_data(const struct wf_ckpt *s);

struct wf_ckpt_param {
    const char *name;
    uint32_t n_dims;
    uint64_t shape[WF_STORE_MAX_DIMS];
    uint64_t n; /* number of elements */
    /* Which fields are stored: equal for all parameters; always true for the value. */
    bool has[WF_STORE_N_FIELDS];
};

/* Returns the number of parameters in the checkpoint. */
size_t wf_ckpt_count(const struct wf_ckpt *s);
/* Returns the i-th parameter.  Parameters are in the order of the blobs and, within a blob, in
 * the order of the calls of wf_store_writer_add(). */
const struct wf_ckpt_param *wf_ckpt_at(const struct wf_ckpt *s, size_t i);
/* Returns the parameter with this name, or NULL if there is none. */
const struct wf_ckpt_param *wf_ckpt_find(const struct wf_ckpt *s, const char *name);

/* Reads the elements begin .. begin + n - 1 of a parameter.  The elements may come from the
 * files of several ranks.  On error `out` may be partly written. */
enum weft_status wf_ckpt_read(struct wf_ckpt *s, const char *param, enum wf_store_field field,
                              uint64_t begin, uint64_t n, float *out, struct weft_error *err);

#endif
