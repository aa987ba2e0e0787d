/* Stores the checkpoints of a run: a directory with one subdirectory per checkpoint.  Each contains
 * everything a run needs to resume, indexed by tensor name and independent of the layout of ranks.
 *
 *     ROOT/step-00000120/manifest.json            list of files and pieces with their hashes
 *                        rank-00000.safetensors   pieces of tensors: "wte.weight#m@4096"
 *                        rank-00001.safetensors
 *     ROOT/.step-00000130.RUN.tmp/                a checkpoint that is being written
 *
 * Saving: every rank writes one file and gets a blob that describes it.  One rank collects the
 * blobs and commits.
 *
 *     every rank   WEFT_TRY(wf_store_writer_new(root, step, run, rank, &w, err));
 *                  WEFT_TRY(wf_store_writer_add(w, "wte.weight", 2, shape, WF_STORE_FIELD_VALUE,
 *                                                 begin, values, n, err));    ... and so on
 *                  WEFT_TRY(wf_store_writer_finish(w, &blob, &bytes, err));
 *     one rank     WEFT_TRY(wf_store_commit(&all, keep, err));
 *     every rank   wf_store_writer_free(w);
 *
 * A checkpoint exists once its directory has its final name; all of its bytes are durable by then.
 * A crash before that leaves the older checkpoints unchanged.  If a rank fails, wf_store_abort()
 * removes the files of the others.
 *
 * Resuming: open the newest valid checkpoint, then read any range of any tensor.
 *
 *     WEFT_TRY(wf_ckpt_open_newest(root, true, &store, &skipped, err));
 *     if (store != NULL)
 *         st = wf_ckpt_read(store, "wte.weight", WF_STORE_FIELD_M, begin, n, out, err);
 *     wf_ckpt_free(store);
 *
 * Files are untrusted input: each piece is compared with its hash before its values are returned,
 * and neither symbolic links and pipes nor files outside of the directory are opened.  The step
 * number determines the data position: batches and random numbers follow from it.
 *
 * All functions are Local and may be called from any thread; a writer is used by one thread at a
 * time.
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
    WF_STORE_MAX_RUN = 64, /* characters of a run's name: letters, digits, '.', '_' and '-' */
    WF_STORE_MAX_FILES = 100000,
};

/* The fields stored per parameter: its value and the optimizer's moments. */
enum wf_store_field {
    WF_STORE_FIELD_VALUE,
    WF_STORE_FIELD_M,
    WF_STORE_FIELD_V,
    WF_STORE_N_FIELDS
};

/* Returns "value", "m" or "v". */
const char *wf_store_field_name(enum wf_store_field field);

/* -- the directory ------------------------------------------------------------------------- */

/* Creates ROOT (its parent must exist), checks that files can be written, synced and renamed in
 * it, so that a run fails at its start and not at its first checkpoint, and removes unfinished
 * checkpoints of other runs unless a process has them open.  Appends one line per removed
 * checkpoint to `removed`, which may be NULL. */
enum weft_status wf_store_prepare(const char *root, struct wf_text *removed,
                                  struct weft_error *err);

struct wf_store_lock; /* opaque */

/* Locks the file `lock` in `dir` for this process.  Returns WEFT_USAGE with the owner if another
 * process has the lock.  The system releases the lock when the process ends. */
enum weft_status wf_store_lock(const char *dir, struct wf_store_lock **out,
                               struct weft_error *err);
void wf_store_unlock(struct wf_store_lock *lock); /* NULL is allowed */

/* Returns 1 if a process has the lock, 0 if none has it, -1 if that is unknown, for example because
 * there is no lock file. */
int wf_store_is_locked(const char *dir);

/* Returns WEFT_IO with both figures if fewer than `bytes` are free for ROOT.  Each writer checks
 * for its own file; ranks that share a disk check for the sum first. */
enum weft_status wf_store_check_space(const char *root, uint64_t bytes, struct weft_error *err);

/* Removes all but the `keep` (1 or more) newest checkpoints with a valid manifest and correct
 * sizes.  Damaged checkpoints are removed if they are older than all of these.  Removes nothing
 * while there are fewer.  Call it after the newest checkpoint was verified. */
enum weft_status wf_store_prune(const char *root, size_t keep, struct weft_error *err);

/* Parses the name of a checkpoint's directory: step-00000120.  Returns false for every other name,
 * also for another spelling of the same number. */
bool wf_store_parse_step(const char *name, uint64_t *step);

/* Removes one checkpoint. */
enum weft_status wf_store_discard(const char *root, uint64_t step, struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_store_writer; /* opaque */

/* Starts the file of one rank.  `run` is the same on all ranks and differs between runs. */
enum weft_status wf_store_writer_new(const char *root, uint64_t step, const char *run,
                                     uint32_t rank, struct wf_store_writer **out,
                                     struct weft_error *err);

/* Adds elements begin .. begin + n - 1 (n >= 1) of a parameter of this shape.  `values` is borrowed
 * until wf_store_writer_finish() returns, which does the writing. */
enum weft_status wf_store_writer_add(struct wf_store_writer *w, const char *param,
                                     uint32_t n_dims, const uint64_t *shape,
                                     enum wf_store_field field, uint64_t begin,
                                     const float *values, uint64_t n, struct weft_error *err);

/* Returns the size of the file without its header. */
uint64_t wf_store_writer_bytes(const struct wf_store_writer *w);

/* Writes the file and makes it durable; removes it on error.  *blob describes the file for
 * wf_store_commit(); the caller frees it. */
enum weft_status wf_store_writer_finish(struct wf_store_writer *w, char **blob, size_t *bytes,
                                        struct weft_error *err);

/* Frees the writer.  Until then no other run removes the temporary directory.  NULL is allowed. */
void wf_store_writer_free(struct wf_store_writer *w);

struct wf_store_commit_info {
    const char *root;
    uint64_t step;
    const char *run;
    const char *config; /* UTF-8: the settings of the run */
    const char *model;  /* UTF-8: the model's config.json */
    const char *const *blobs;
    const size_t *blob_bytes;
    size_t n_blobs; /* one per rank, in any order */
};

/* Checks that the pieces of all ranks cover every tensor exactly once, writes the manifest, and
 * renames the directory to its final name.  Replaces an older checkpoint of the same step
 * atomically.  On error it removes the temporary directory and leaves all other checkpoints
 * unchanged. */
enum weft_status wf_store_publish(const struct wf_store_commit_info *parts,
                                  struct weft_error *err);

/* Reads the files part, part + n_parts, ... of a checkpoint from the disk and compares their
 * hashes, so that ranks can share the work.  Part 0 of 1 is the whole checkpoint. */
enum weft_status wf_store_verify(const char *root, uint64_t step, size_t part, size_t n_parts,
                                 struct weft_error *err);

/* Publishes, verifies and prunes; discards a checkpoint that fails verification. */
enum weft_status wf_store_commit(const struct wf_store_commit_info *parts, size_t keep,
                                 struct weft_error *err);

/* Removes the temporary directory of a step, if there is one. */
enum weft_status wf_store_abort(const char *root, uint64_t step, const char *run,
                                struct weft_error *err);

/* -- reading ------------------------------------------------------------------------------- */

struct wf_ckpt; /* opaque: one checkpoint */

/* Opens a checkpoint directory and checks its manifest and the sizes and headers of all files.
 * With `verify` it also compares all values with their hashes, which later reads then skip.
 * Returns WEFT_CKPT with the checkpoint, the file and the tensor that is wrong. */
enum weft_status wf_ckpt_open(const char *path, bool verify, struct wf_ckpt **out,
                              struct weft_error *err);

/* Opens the newest valid checkpoint in ROOT.  Sets *out to NULL if ROOT does not exist or has no
 * checkpoints.  Appends one line per skipped checkpoint to `skipped`, which may be NULL.  Returns
 * WEFT_CKPT if all were skipped. */
enum weft_status wf_ckpt_open_newest(const char *root, bool verify, struct wf_ckpt **out,
                                     struct wf_text *skipped, struct weft_error *err);
/* Opens the newest valid checkpoint before step `below`, for callers that could not use a newer
 * one.  Returns WEFT_CKPT if there are only newer ones. */
enum weft_status wf_ckpt_open_newest_below(const char *root, uint64_t below, bool verify,
                                           struct wf_ckpt **out, struct wf_text *skipped,
                                           struct weft_error *err);
void wf_ckpt_free(struct wf_ckpt *s); /* NULL is allowed */

/* The getters return what the manifest contains.  Strings are borrowed until the checkpoint is
 * freed. */
const char *wf_ckpt_path(const struct wf_ckpt *s);
uint64_t wf_ckpt_step(const struct wf_ckpt *s);
const char *wf_ckpt_run(const struct wf_ckpt *s);
const char *wf_ckpt_config(const struct wf_ckpt *s);
const char *wf_ckpt_model(const struct wf_ckpt *s);

struct wf_ckpt_param {
    const char *name;
    uint32_t n_dims;
    uint64_t shape[WF_STORE_MAX_DIMS];
    uint64_t n;                  /* elements */
    bool has[WF_STORE_N_FIELDS]; /* the same for all parameters; always true for the value */
};

/* Returns the number of parameters. */
size_t wf_ckpt_count(const struct wf_ckpt *s);
/* Returns the i-th parameter in the order of the blobs and, within one, of wf_store_writer_add(). */
const struct wf_ckpt_param *wf_ckpt_at(const struct wf_ckpt *s, size_t i);
/* Returns the parameter with this name, or NULL. */
const struct wf_ckpt_param *wf_ckpt_find(const struct wf_ckpt *s, const char *name);

/* Reads elements begin .. begin + n - 1, whichever ranks wrote them.  On error `out` may be partly
 * written. */
enum weft_status wf_ckpt_read(struct wf_ckpt *s, const char *param, enum wf_store_field field,
                              uint64_t begin, uint64_t n, float *out, struct weft_error *err);

#endif
