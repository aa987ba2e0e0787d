/* Saves the weights of a run: rank 0 writes the weights, and the other ranks send theirs to
 * it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "runtime/comm/background.h"
#include "training/ckpt/hf.h"
#include "training/trainer/companions.h"
#include "training/trainer/messages.h"
#include "training/trainer/param_names.h"
#include "training/trainer/trainer_priv.h"

/* -- weights of other ranks ---------------------------------------------------------------- */

/* Returns the rank whose copy of a parameter is saved: the first member of its group. */
static uint32_t owner(const struct wf_topology *l, size_t param)
{
    for (size_t i = 0; i < l->n_groups; i++)
        for (size_t k = 0; k < l->groups[i].n_tensors; k++)
            if (l->groups[i].tensors[k].param == param)
                return l->groups[i].members[0];
    return 0;
}

static struct wf_param *own_param(const struct wf_trainer *t, size_t param)
{
    for (size_t i = 0; i < t->n_groups; i++)
        for (size_t k = 0; k < t->groups[i].plan->n_tensors; k++)
            if (t->groups[i].plan->tensors[k].param == param)
                return t->groups[i].params[k];
    return NULL;
}

static struct weft_message weights_message(const struct wf_trainer *t, uint32_t peer,
                                           size_t param, float *data)
{
    size_t bytes = wf_param_size(&t->topology.params.at[param]) * sizeof(float);
    struct weft_message m = wf_trainer_message(peer, WF_MESSAGE_WEIGHTS, t->done, data, bytes);
    m.head.part = (uint32_t)param;
    return m;
}

enum weft_status wf_trainer_send_weights(struct wf_trainer *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->topology.params.n; i++)
        if (owner(&t->topology, i) == t->rank)
            WEFT_TRY(wf_comm_send_blocking(
                t->comm, weights_message(t, 0, i, own_param(t, i)->value), err));
    return WEFT_OK;
}

enum weft_status wf_trainer_fetch_weight(struct wf_trainer *t, size_t param, float *out,
                                         struct weft_error *err)
{
    uint32_t from = owner(&t->topology, param);
    if (from != 0)
        return wf_comm_receive_blocking(t->comm, weights_message(t, from, param, out), err);
    const struct wf_param *own = own_param(t, param);
    memcpy(out, own->value, own->n * sizeof *out);
    return WEFT_OK;
}

/* -- writing ------------------------------------------------------------------------------- */

struct saved_piece {
    struct wf_hf_writer *writer;
    const float *values; /* borrowed; NULL: finish the file */
    size_t n;
};

static enum weft_status write_piece(void *arg, struct weft_error *err)
{
    const struct saved_piece *p = arg;
    return p->values == NULL ? wf_hf_writer_finish(p->writer, err)
                             : wf_hf_writer_append(p->writer, p->values, p->n, err);
}

static enum weft_status write_weights(struct wf_trainer *t, float *buffer,
                                      struct wf_hf_writer *w, struct weft_error *err)
{
    struct saved_piece piece = {.writer = w};
    for (size_t i = 0; i < t->topology.params.n; i++) {
        piece.n = wf_param_size(&t->topology.params.at[i]);
        if (owner(&t->topology, i) == 0) {
            piece.values = own_param(t, i)->value;
        } else {
            WEFT_TRY(wf_trainer_fetch_weight(t, i, buffer, err));
            piece.values = buffer;
        }
        WEFT_TRY(wf_background_run(t->comm, write_piece, &piece, err));
    }
    piece.values = NULL;
    return wf_background_run(t->comm, write_piece, &piece, err);
}

/* Allocates a buffer for the largest tensor that another rank sends. */
static float *alloc_buffer(const struct wf_trainer *t)
{
    size_t max = 1;
    for (size_t i = 0; t->n_ranks > 1 && i < t->topology.params.n; i++)
        if (owner(&t->topology, i) != 0 && wf_param_size(&t->topology.params.at[i]) > max)
            max = wf_param_size(&t->topology.params.at[i]);
    return malloc(max * sizeof(float));
}

static enum weft_status save_root(struct wf_trainer *t, const char *dir,
                                  const struct wf_companions *companions,
                                  struct weft_error *err)
{
    struct wf_hf_metadata about = {0};
    const struct wf_hf_write_options options = {
        .type = WF_DTYPE_F32, .shard_bytes = WF_HF_SHARD_BYTES, .about = &about};
    if (companions != NULL)
        wf_companions_describe(companions, &about);
    const struct wf_param_list *list = &t->topology.params;
    struct wf_hf_tensor *tensors = wf_param_hf_tensors(list, err);
    float *buffer = alloc_buffer(t);
    struct wf_hf_writer *writer = NULL;
    enum weft_status st = WEFT_OK;
    if (tensors == NULL || buffer == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to save %zu weights", list->n);

    if (st == WEFT_OK)
        st =
            wf_hf_writer_new(dir, &t->topology.model, tensors, list->n, &options, &writer, err);
    if (st == WEFT_OK && companions != NULL)
        st = wf_companions_write(companions, &t->topology.model, writer, err);
    if (st == WEFT_OK)
        st = write_weights(t, buffer, writer, err);

    wf_hf_writer_free(writer);
    free(buffer);
    free(tensors);
    return st;
}

enum weft_status wf_trainer_save(struct wf_trainer *t, const char *dir,
                                 const struct wf_companions *companions, struct weft_error *err)
{
    if (t->comm != NULL)
        weft_comm_publish(t->comm, t->done, WF_PHASE_SAVE);
    WEFT_TRY(t->rank == 0 ? save_root(t, dir, companions, err)
                          : wf_trainer_send_weights(t, err));
    /* No rank continues before the files are on the disk. */
    return t->comm == NULL ? WEFT_OK : weft_comm_barrier(t->comm, err);
}
