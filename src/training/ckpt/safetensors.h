/* Reads and writes safetensors files: eight bytes with the length of a JSON header, the header, the
 * data.
 *
 *     struct wf_safetensors *s;
 *     WEFT_TRY(wf_safetensors_open("model.safetensors", &s, err));
 *     const struct wf_safetensors_tensor *t = wf_safetensors_find(s, "wte.weight");
 *     if (t != NULL)
 *         st = wf_safetensors_read(s, t, 0, t->n, values, err);
 *     wf_safetensors_free(s);
 *
 * The reader is stricter than the reference implementation: it refuses what readers could
 * interpret differently (duplicate keys, bytes that belong to no tensor, names with a slash).
 * Time and memory are proportional to the size of the file, even for malicious files.  Every
 * error names the file and the tensor or the byte.
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
    bool readable;      /* true for F32, BF16 and F16; other types are only listed */
    enum wf_dtype type; /* if readable */
    uint32_t n_dims;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
    uint64_t n;          /* elements: the product of the shape */
    uint64_t begin, end; /* bytes, relative to the start of the data */
};

/* Opens a file and checks its header.  Returns WEFT_CKPT if it is not a safetensors file or is
 * damaged, WEFT_IO if it cannot be read.  Free it with wf_safetensors_free().  Local. */
enum weft_status wf_safetensors_open(const char *path, struct wf_safetensors **out,
                                     struct weft_error *err);

/* Opens a file that is in memory.  `bytes` is borrowed until it is closed; `source` is for
 * messages.  Local. */
enum weft_status wf_safetensors_open_bytes(const void *bytes, size_t len, const char *source,
                                           struct wf_safetensors **out, struct weft_error *err);
void wf_safetensors_free(struct wf_safetensors *s); /* NULL is allowed */

/* Returns the number of tensors. */
size_t wf_safetensors_count(const struct wf_safetensors *s);

/* Returns the i-th tensor in the order of their offsets; empty tensors come before another one at
 * the same offset. */
const struct wf_safetensors_tensor *wf_safetensors_at(const struct wf_safetensors *s, size_t i);

/* Returns the tensor with this name, or NULL. */
const struct wf_safetensors_tensor *wf_safetensors_find(const struct wf_safetensors *s,
                                                        const char *name);

/* Returns a string of the header's __metadata__, or NULL.  Borrowed. */
const char *wf_safetensors_metadata(const struct wf_safetensors *s, const char *key);

/* Returns the path of the file, or the source of the bytes.  Borrowed. */
const char *wf_safetensors_path(const struct wf_safetensors *s);

/* Reads elements first .. first + n - 1 of a tensor of this file as fp32; BF16 and F16 are widened
 * exactly.  On error `out` may be partly written.  Local. */
enum weft_status wf_safetensors_read(const struct wf_safetensors *s,
                                     const struct wf_safetensors_tensor *t, uint64_t first,
                                     size_t n, float *out, struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_safetensors_writer; /* opaque */

/* A tensor to write. */
struct wf_safetensors_entry {
    const char *name;
    enum wf_dtype type; /* WF_DTYPE_F32 or WF_DTYPE_BF16 */
    uint32_t n_dims;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
};

struct wf_safetensors_pair {
    const char *key, *value; /* UTF-8 */
};

/* Starts a file with these tensors in this order.  Its metadata is "format": "pt" and the pairs.
 * The data begins at a multiple of 64 bytes.  The file is written atomically.  Local. */
enum weft_status wf_safetensors_writer_new(const char *path,
                                           const struct wf_safetensors_entry *entries,
                                           size_t n_entries,
                                           const struct wf_safetensors_pair *pairs,
                                           size_t n_pairs, struct wf_safetensors_writer **out,
                                           struct weft_error *err);

/* Appends the next n elements, all of one tensor; BF16 is rounded to nearest even.  Local. */
enum weft_status wf_safetensors_writer_append(struct wf_safetensors_writer *w,
                                              const float *values, size_t n,
                                              struct weft_error *err);

/* Makes the file durable and renames it to its path.  Returns WEFT_INTERNAL if elements are
 * missing.  The writer must still be freed.  Local. */
enum weft_status wf_safetensors_writer_finish(struct wf_safetensors_writer *w,
                                              struct weft_error *err);

/* Frees the writer and removes an unfinished file.  NULL is allowed.  Local. */
void wf_safetensors_writer_free(struct wf_safetensors_writer *w);

/* Computes elements and bytes of an entry.  Returns WEFT_CKPT if its name or shape is not
 * allowed. */
enum weft_status wf_safetensors_entry_size(const struct wf_safetensors_entry *entry,
                                           uint64_t *n, uint64_t *bytes,
                                           struct weft_error *err);

#endif
