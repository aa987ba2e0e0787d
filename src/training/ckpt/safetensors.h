/* Reads and writes safetensors files.  A file consists of the header length (8 bytes), a JSON
 * header, and the data.
 *
 *     struct wf_safetensors *s;
 *     WEFT_TRY(wf_safetensors_open("model.safetensors", &s, err));
 *     const struct wf_safetensors_tensor *t = wf_safetensors_find(s, "wte.weight");
 *     if (t != NULL)
 *         st = wf_safetensors_read(s, t, 0, t->n, values, err);
 *     wf_safetensors_free(s);
 *
 * The reader is stricter than the reference implementation: it rejects files that different
 * readers could interpret differently, for example files with duplicate keys, bytes that belong
 * to no tensor, or names with a slash.
 *
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
    /* Printable ASCII; name and dtype are borrowed until the file is closed. */
    const char *name;
    const char *dtype; /* type as written in the file, for example "F32" or "I64" */
    /* True for F32, BF16 and F16; tensors of other types are listed but cannot be read. */
    bool readable;
    enum wf_dtype type; /* valid only if readable */
    uint32_t n_dims;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
    uint64_t n;          /* number of elements: the product of the shape */
    uint64_t begin, end; /* byte offsets, relative to the start of the data */
};

/* Opens a file and checks its header.  Returns WEFT_CKPT if the file is damaged or is not a
 * safetensors file, and WEFT_IO if the file cannot be read.  The caller frees *out with
 * wf_safetensors_free().  Local. */
enum weft_status wf_safetensors_open(const char *path, struct wf_safetensors **out,
                                     struct weft_error *err);

/* Opens a file that is in memory.  `bytes` is borrowed until wf_safetensors_free().  `source`
 * is the name used in error messages.  Local. */
enum weft_status wf_safetensors_open_bytes(const void *bytes, size_t len, const char *source,
                                           struct wf_safetensors **out, struct weft_error *err);
void wf_safetensors_free(struct wf_safetensors *s); /* NULL is allowed */

/* Returns the number of tensors in the file. */
size_t wf_safetensors_count(const struct wf_safetensors *s);

/* Returns the i-th tensor in the order of offsets.  An empty tensor comes before a non-empty
 * tensor with the same offset. */
const struct wf_safetensors_tensor *wf_safetensors_at(const struct wf_safetensors *s, size_t i);

/* Returns the tensor with this name, or NULL if there is none. */
const struct wf_safetensors_tensor *wf_safetensors_find(const struct wf_safetensors *s,
                                                        const char *name);

/* Returns the value of `key` in __metadata__ of the header, or NULL if there is none.  The
 * pointer is borrowed. */
const char *wf_safetensors_metadata(const struct wf_safetensors *s, const char *key);

/* Returns the path of the file, or `source` for a file in memory.  The pointer is borrowed. */
const char *wf_safetensors_path(const struct wf_safetensors *s);

/* Reads the elements first .. first + n - 1 of a tensor of this file as fp32.  BF16 and F16 are
 * widened exactly.  On error `out` may be partly written.  Local. */
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

/* Starts a file that contains the given tensors in the given order.  The metadata of the file
 * is "format": "pt" and the given pairs.  The data begins at a multiple of 64 bytes.  The file
 * is written atomically.  Local. */
enum weft_status wf_safetensors_writer_new(const char *path,
                                           const struct wf_safetensors_entry *entries,
                                           size_t n_entries,
                                           const struct wf_safetensors_pair *pairs,
                                           size_t n_pairs, struct wf_safetensors_writer **out,
                                           struct weft_error *err);

/* Appends the next n elements, which must all belong to the same tensor.  Conversion to BF16
 * rounds to nearest even.  Local. */
enum weft_status wf_safetensors_writer_append(struct wf_safetensors_writer *w,
                                              const float *values, size_t n,
                                              struct weft_error *err);

/* Makes the file durable and renames it to its final path.  Returns WEFT_INTERNAL if elements
 * are missing.  The caller must still free the writer.  Local. */
enum weft_status wf_safetensors_writer_finish(struct wf_safetensors_writer *w,
                                              struct weft_error *err);

/* Frees the writer and removes an unfinished file.  NULL is allowed.  Local. */
void wf_safetensors_writer_free(struct wf_safetensors_writer *w);

/* Computes the number of elements and bytes of an entry.  Returns WEFT_CKPT if the name or the
 * shape of the entry is not allowed. */
enum weft_status wf_safetensors_entry_size(const struct wf_safetensors_entry *entry,
                                           uint64_t *n, uint64_t *bytes,
                                           struct weft_error *err);

#endif
