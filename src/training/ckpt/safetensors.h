/* safetensors files: eight bytes with the length of a JSON header, the header, the numbers.
 *
 *     struct wf_safetensors *s;
 *     WEFT_TRY(wf_safetensors_open("model.safetensors", &s, err));
 *     const struct wf_safetensors_tensor *t = wf_safetensors_find(s, "wte.weight");
 *     if (t != NULL)
 *         st = wf_safetensors_read(s, t, 0, t->n, values, err);
 *     wf_safetensors_free(s);
 *
 * The reader is stricter than the reference one: what the two could understand differently (a key
 * twice, bytes that no tensor has, names with a slash) is refused.  A file is read with work and
 * memory that grow with its size, whatever it says; every error names the file and the tensor or
 * the byte.
 */
#ifndef TRAINING_CKPT_SAFETENSORS_H
#define TRAINING_CKPT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"
#include "weft/status.h"

enum {
    WF_SAFETENSORS_MAX_DIMS = 8,
    WF_SAFETENSORS_MAX_NAME = 512,
    WF_SAFETENSORS_MAX_TENSORS = 65536,
    WF_SAFETENSORS_MAX_HEADER = 16 << 20,
};

/* -- reading ------------------------------------------------------------------------------- */

struct wf_safetensors; /* opaque: read-only once open, safe to use from any thread */

struct wf_safetensors_tensor {
    const char *name;   /* printable ASCII; borrowed, as is dtype, until the file is closed */
    const char *dtype;  /* as the file spells it: "F32", "I64" */
    bool readable;      /* F32, BF16 and F16; the others are only listed */
    enum wf_dtype type; /* when readable */
    uint32_t rank;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
    uint64_t n;          /* elements: the product of the shape */
    uint64_t begin, end; /* bytes, from the first byte of data */
};

/* WEFT_CKPT for a file that is none, or a broken one; WEFT_IO when it cannot be read.
 * wf_safetensors_free() closes it.  Local. */
enum weft_status wf_safetensors_open(const char *path, struct wf_safetensors **out,
                                     struct weft_error *err);

/* The same for bytes in memory, borrowed until it is closed; `source` is for messages.  Local. */
enum weft_status wf_safetensors_open_bytes(const void *bytes, size_t len, const char *source,
                                           struct wf_safetensors **out, struct weft_error *err);
void wf_safetensors_free(struct wf_safetensors *s); /* NULL is allowed */

/* The tensors in the order of their bytes; those without bytes first where they share a place. */
size_t wf_safetensors_count(const struct wf_safetensors *s);
const struct wf_safetensors_tensor *wf_safetensors_at(const struct wf_safetensors *s, size_t i);

/* NULL when there is none of this name. */
const struct wf_safetensors_tensor *wf_safetensors_find(const struct wf_safetensors *s,
                                                        const char *name);

/* A string of the header's __metadata__, or NULL.  Borrowed. */
const char *wf_safetensors_metadata(const struct wf_safetensors *s, const char *key);

/* The path it was opened by, or the source.  Borrowed. */
const char *wf_safetensors_path(const struct wf_safetensors *s);

/* Elements first .. first + n - 1 of a tensor of this file, as fp32; BF16 and F16 become fp32
 * exactly.  `out` may be half written when it fails.  Local. */
enum weft_status wf_safetensors_read(const struct wf_safetensors *s,
                                     const struct wf_safetensors_tensor *t, uint64_t first,
                                     size_t n, float *out, struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_safetensors_writer; /* opaque */

/* What a file will hold, said before the first number comes. */
struct wf_safetensors_entry {
    const char *name;
    enum wf_dtype type; /* WF_DTYPE_F32 or WF_DTYPE_BF16 */
    uint32_t rank;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
};

struct wf_safetensors_pair {
    const char *key, *value; /* UTF-8 */
};

/* Begins a file with these tensors, their bytes in this order, and "format": "pt" and the pairs as
 * its metadata.  All is written to a temporary file beside `path` until it is complete.  The data
 * begins at a multiple of 64 bytes.  Local. */
enum weft_status wf_safetensors_writer_new(const char *path,
                                           const struct wf_safetensors_entry *entries,
                                           size_t n_entries,
                                           const struct wf_safetensors_pair *pairs,
                                           size_t n_pairs, struct wf_safetensors_writer **out,
                                           struct weft_error *err);

/* The next n elements, all of one tensor; BF16 is rounded to nearest even.  Local. */
enum weft_status wf_safetensors_writer_append(struct wf_safetensors_writer *w,
                                              const float *values, size_t n,
                                              struct weft_error *err);

/* Makes the file durable and puts it in its place; an error when elements are missing.  The writer
 * must still be freed.  Local. */
enum weft_status wf_safetensors_writer_finish(struct wf_safetensors_writer *w,
                                              struct weft_error *err);

/* Removes what was not finished.  NULL is allowed.  Local. */
void wf_safetensors_writer_free(struct wf_safetensors_writer *w);

/* Elements and bytes of an entry; WEFT_CKPT when its name or shape cannot be in a file. */
enum weft_status wf_safetensors_entry_size(const struct wf_safetensors_entry *entry,
                                           uint64_t *n, uint64_t *bytes,
                                           struct weft_error *err);

#endif
