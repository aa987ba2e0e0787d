/* Hashes weights tensor by tensor.  Tensors are read in pieces, so the memory does not depend
 * on the size of the model. */
#include "training/ckpt/weights_hash.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "training/ckpt/xxh3.h"

enum { PIECE = 1 << 15 }; /* elements per read */

struct hasher {
    struct wf_xxh3_hasher *state; /* owned */
    float *values;                /* owned: buffer of PIECE elements */
    unsigned char *bytes;         /* owned: the same elements in little-endian order */
};

static void add_number(struct hasher *h, uint64_t number)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    wf_xxh3_hasher_update(h->state, bytes, sizeof bytes);
}

static void add_values(struct hasher *h, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (unsigned k = 0; k < 4; k++)
            h->bytes[4 * i + k] = (unsigned char)(bits >> (8 * k));
    }
    wf_xxh3_hasher_update(h->state, h->bytes, 4 * n);
}

/* Hashes the name and the shape of a tensor.  Returns its number of elements. */
static uint64_t add_head(struct hasher *h, const struct wf_hf_tensor *tensor)
{
    uint64_t n = 1;
    wf_xxh3_hasher_update(h->state, tensor->name, strlen(tensor->name) + 1);
    add_number(h, tensor->n_dims);
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        add_number(h, tensor->shape[i]);
        n *= tensor->shape[i];
    }
    return n;
}

static enum weft_status add_tensor(struct hasher *h, const struct wf_hf *hf,
                                   const struct wf_hf_tensor *tensor, struct weft_error *err)
{
    struct wf_hf_location found;
    WEFT_TRY(wf_hf_find(hf, tensor->name, tensor->n_dims, tensor->shape, &found, err));
    add_head(h, tensor);
    for (uint64_t at = 0; at < found.tensor->n;) {
        uint64_t rest = found.tensor->n - at;
        size_t n = rest < PIECE ? (size_t)rest : PIECE;
        WEFT_TRY(wf_safetensors_read(found.file, found.tensor, at, n, h->values, err));
        add_values(h, h->values, n);
        at += n;
    }
    return WEFT_OK;
}

/* Hashes a tensor of a source that can only read whole tensors. */
static enum weft_status add_weights(struct hasher *h, const struct wf_weights *w,
                                    const struct wf_hf_tensor *tensor, struct weft_error *err)
{
    uint64_t n = add_head(h, tensor);
    size_t bytes;
    float *values = wf_size_mul((size_t)n, sizeof *values, &bytes) ? malloc(bytes + 1) : NULL;
    if (values == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to hash %s", tensor->name);
    enum weft_status st =
        wf_weights_read(w, tensor->name, tensor->n_dims, tensor->shape, values, err);
    for (uint64_t at = 0; st == WEFT_OK && at < n; at += PIECE)
        add_values(h, values + at, n - at < PIECE ? (size_t)(n - at) : PIECE);
    free(values);
    return st;
}

enum weft_status wf_weights_hash(const struct wf_weights *w, const struct wf_hf_tensor *tensors,
                                 size_t n, char out[WF_HASH_HEX_SIZE], struct weft_error *err)
{
    const struct wf_hf *hf = wf_weights_hf(w);
    struct hasher h = {wf_xxh3_hasher_new(), malloc(PIECE * sizeof(float)), malloc(PIECE * 4)};
    enum weft_status st = WEFT_OK;
    if (h.state == NULL || h.values == NULL || h.bytes == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to hash weights");
    else
        wf_xxh3_hasher_reset(h.state);
    for (size_t i = 0; i < n && st == WEFT_OK; i++)
        st = hf != NULL ? add_tensor(&h, hf, &tensors[i], err)
                        : add_weights(&h, w, &tensors[i], err);
    if (st == WEFT_OK)
        memcpy(out, wf_xxh3_hasher_digest(h.state).hex, WF_HASH_HEX_SIZE);
    wf_xxh3_hasher_free(h.state);
    free(h.values);
    free(h.bytes);
    return st;
}
