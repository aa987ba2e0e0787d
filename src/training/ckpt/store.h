/* The checkpoints of a run: a directory of directories, each with all that a run needs to go on,
 * by the names of tensors and not by who held them.
 *
 *     ROOT/step-00000120/manifest.json            what there is, and a hash of every byte of it
 *                        rank-00000.safetensors   pieces of tensors: "wte.weight#m@4096"
 *                        rank-00001.safetensors
 *     ROOT/.step-00000130.RUN.tmp/                one that is being written
 *
 * Saving: every rank writes one file and gets some bytes that describe it; one rank collects these
 * and commits.
 *
 *     every rank   WEFT_TRY(wf_store_writer_new(root, step, run, rank, &w, err));
 *                  WEFT_TRY(wf_store_writer_add(w, "wte.weight", 2, shape, WF_STORE_FIELD_VALUE,
 *                                                 begin, values, n, err));    ... and so on
 *                  WEFT_TRY(wf_store_writer_finish(w, &blob, &bytes, err));
 *     one rank     WEFT_TRY(wf_store_commit(&all, keep, err));
 *     every rank   wf_store_writer_free(w);
 *
 * A checkpoint is there once its directory has its name, and then all of it is on the disk.  Until
 * then a crash leaves the older ones as they were.  When a rank fails, wf_store_abort() takes
 * away what the others wrote.
 *
 * Resuming: the newest checkpoint that is whole, then any range of any tensor.
 *
 *     WEFT_TRY(wf_ckpt_open_newest(root, true, &store, &skipped, err));
 *     if (store != NULL)
 *         st = wf_ckpt_read(store, "wte.weight", WF_STORE_FIELD_M, begin, n, out, err);
 *     wf_ckpt_free(store);
 *
 * What is read is untrusted: each piece is hashed before its numbers are given out, nothing outside
 * of the directory is opened, and no symbolic link or pipe in it.  A step's data position is its
 * number: batches and random numbers follow from it.
 *
 * All functions are Local, and may be called from any thread, a writer from one at a time.
 */
#ifndef TRAINING_CKPT_STORE_H
#define TRAINING_CKPT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "weft/status.h"

enum {
    WF_STORE_MAX_DIMS = 8, /* dimensions */
    WF_STORE_MAX_RUN = 64, /* characters of a run's name: letters, digits, '.', '_' and '-' */
    WF_STORE_MAX_FILES = 100000,
};

/* What is kept of a parameter: its value and the optimizer's moments. */
enum wf_store_field {
    WF_STORE_FIELD_VALUE,
    WF_STORE_FIELD_M,
    WF_STORE_FIELD_V,
    WF_STORE_N_FIELDS
};

const char *wf_store_field_name(enum wf_store_field what); /* "value", "m", "v" */

/* -- the directory ------------------------------------------------------------------------- */

/* Makes ROOT (its parent exists), tries whether files can be written, synced and renamed in it, so
 * that a run hears now and not at its first checkpoint, and removes what runs that have died left
 * half written, unless another run has it open.  A line for each of these goes to `removed`, which
 * may be NULL. */
enum weft_status wf_store_prepare(const char *root, struct wf_text *removed,
                                  struct weft_error *err);

struct wf_store_lock; /* opaque */

/* Takes the file `lock` in `dir` for this process, or says who has it: WEFT_USAGE.  The system lets
 * go of it when the process ends, however it ends. */
enum weft_status wf_store_lock(const char *dir, struct wf_store_lock **out,
                               struct weft_error *err);
void wf_store_unlock(struct wf_store_lock *lock); /* NULL is allowed */

/* Whether a process has it: 1, or 0; -1 when that cannot be told, for there never was one. */
int wf_store_is_locked(const char *dir);

/* WEFT_IO, with both figures, when fewer than `bytes` are free for ROOT.  Every writer asks for its
 * own file; ranks that share a disk ask for their sum before. */
enum weft_status wf_store_check_space(const char *root, uint64_t bytes, struct weft_error *err);

/* Removes all but the `keep` (1 or more) newest checkpoints that are whole by their manifests and
 * sizes.  Broken ones go when they are older than all of these; nothing goes as long as there are
 * fewer.  Call it when the newest one was verified. */
enum weft_status wf_store_prune(const char *root, size_t keep, struct weft_error *err);

/* Parses the name of a checkpoint's directory: step-00000120.  Returns false for every other name,
 * also for another spelling of the same number. */
bool wf_store_parse_step(const char *name, uint64_t *step);

/* Removes one checkpoint. */
enum weft_status wf_store_discard(const char *root, uint64_t step, struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_store_writer; /* opaque */

/* The file of one rank.  `run` is the same on all ranks and another one in every run. */
enum weft_status wf_store_writer_new(const char *root, uint64_t step, const char *run,
                                     uint32_t rank, struct wf_store_writer **out,
                                     struct weft_error *err);

/* Elements begin .. begin + n - 1 of a parameter of this shape, n 1 or more.  `values` is borrowed
 * until wf_store_writer_finish() returns: nothing is written before. */
enum weft_status wf_store_writer_add(struct wf_store_writer *w, const char *param,
                                     uint32_t rank, const uint64_t *shape,
                                     enum wf_store_field what, uint64_t begin,
                                     const float *values, uint64_t n, struct weft_error *err);

/* The bytes that the file will have but for its header. */
uint64_t wf_store_writer_bytes(const struct wf_store_writer *w);

/* Writes the file and makes it durable; removes it again when that fails.  The caller frees *blob,
 * which says to wf_store_commit() what is in the file. */
enum weft_status wf_store_writer_finish(struct wf_store_writer *w, char **blob, size_t *bytes,
                                        struct weft_error *err);

/* NULL is allowed.  As long as a writer lives, no other run removes the temporary directory. */
void wf_store_writer_free(struct wf_store_writer *w);

struct wf_store_commit_info {
    const char *root;
    uint64_t step;
    const char *run;
    const char *config; /* UTF-8: the settings of the run */
    const char *model;  /* UTF-8: the model's config.json */
    const char *const *blobs;
    const size_t *blob_bytes;
    size_t n_blobs; /* one a rank, in any order */
};

/* Checks that the pieces of all ranks fill every tensor just once, writes the manifest, and gives
 * the directory its name.  An older checkpoint of the same step is replaced at one stroke.  When it
 * fails the temporary directory is removed, and all other checkpoints are as they were. */
enum weft_status wf_store_publish(const struct wf_store_commit_info *parts,
                                  struct weft_error *err);

/* Reads the files part, part + n_parts, ... of a checkpoint back from the disk and compares all
 * hashes: ranks may share the work.  0 of 1 is all. */
enum weft_status wf_store_verify(const char *root, uint64_t step, size_t part, size_t n_parts,
                                 struct weft_error *err);

/* All in one: publishes, verifies (and discards what does not verify), prunes. */
enum weft_status wf_store_commit(const struct wf_store_commit_info *parts, size_t keep,
                                 struct weft_error *err);

/* Removes the temporary directory of a step, if there is one. */
enum weft_status wf_store_abort(const char *root, uint64_t step, const char *run,
                                struct weft_error *err);

/* -- reading ------------------------------------------------------------------------------- */

struct wf_ckpt; /* opaque: one checkpoint */

/* Opens ROOT/step-N or wherever it was put.  The manifest, the sizes of all files and their headers
 * are checked; with `verify` all numbers too, and none is hashed again when it is read.  WEFT_CKPT
 * names the checkpoint, the file and the tensor that is wrong. */
enum weft_status wf_ckpt_open(const char *path, bool verify, struct wf_ckpt **out,
                              struct weft_error *err);

/* The newest checkpoint in ROOT that can be opened; NULL when there is none at all, also no ROOT.
 * A line for each one that was passed over goes to `skipped` (may be NULL); when all were,
 * WEFT_CKPT. */
enum weft_status wf_ckpt_open_newest(const char *root, bool verify, struct wf_ckpt **out,
                                     struct wf_text *skipped, struct weft_error *err);
/* The same of those before step `below`: for who could not read a newer one.  When there is none
 * before it, but are others, WEFT_CKPT. */
enum weft_status wf_ckpt_open_newest_below(const char *root, uint64_t below, bool verify,
                                           struct wf_ckpt **out, struct wf_text *skipped,
                                           struct weft_error *err);
void wf_ckpt_free(struct wf_ckpt *s); /* NULL is allowed */

/* All borrowed until the store is freed. */
const char *wf_ckpt_path(const struct wf_ckpt *s);
uint64_t wf_ckpt_step(const struct wf_ckpt *s);
const char *wf_ckpt_run(const struct wf_ckpt *s);
const char *wf_ckpt_config(const struct wf_ckpt *s);
const char *wf_ckpt_model(const struct wf_ckpt *s);

struct wf_ckpt_param {
    const char *name;
    uint32_t rank;
    uint64_t shape[WF_STORE_MAX_DIMS];
    uint64_t n;                  /* elements */
    bool has[WF_STORE_N_FIELDS]; /* the same for all parameters; the value always */
};

/* In the order in which they were added, by the order of blobs. */
size_t wf_ckpt_count(const struct wf_ckpt *s);
const struct wf_ckpt_param *wf_ckpt_at(const struct wf_ckpt *s, size_t i);
const struct wf_ckpt_param *wf_ckpt_find(const struct wf_ckpt *s, const char *name);

/* Elements begin .. begin + n - 1, whoever wrote them.  `out` may be half written when it fails. */
enum weft_status wf_ckpt_read(struct wf_ckpt *s, const char *param, enum wf_store_field what,
                              uint64_t begin, uint64_t n, float *out, struct weft_error *err);

#endif
