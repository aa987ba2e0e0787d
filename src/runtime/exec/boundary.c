/* The tensors at the input and the output of a stage, and the rows of a step. */
#include <string.h>

#include "base/error.h"
#include "runtime/exec/exec_priv.h"

struct boundary wf_exec_boundary(const struct weft_stage *stage, bool out)
{
    const struct weft_tensor_shape *list = out ? stage->out : stage->in;
    struct boundary b = {
        .bytes = {WEFT_DTYPE_U8, 2, {1, out ? stage->out_bytes : stage->in_bytes}},
        .list = list,
        .n = list == NULL ? 1
             : out        ? stage->n_out
                          : stage->n_in,
    };
    return b;
}

static const struct weft_tensor_shape *tensors(const struct boundary *b)
{
    return b->list == NULL ? &b->bytes : b->list;
}

enum weft_status wf_exec_boundary_bytes(const struct boundary *b, uint32_t rows, size_t *out,
                                        struct weft_error *err)
{
    return weft_tensors_bytes(tensors(b), b->n, rows, out, err);
}

void wf_exec_boundary_print(const struct boundary *b, uint32_t rows, char out[WEFT_SHAPE_TEXT])
{
    weft_tensors_print(tensors(b), b->n, rows, out, WEFT_SHAPE_TEXT);
}

bool wf_stage_has_outputs(const struct weft_stage *stage)
{
    return stage->out != NULL ? stage->n_out > 0 : stage->out_bytes > 0;
}

/* -- rows ----------------------------------------------------------------------------------- */

/* Sets the rows of a micro-batch, and the sizes that depend on them. */
static enum weft_status set_micro_rows(struct weft_exec *e, uint32_t micro, uint32_t rows,
                                       struct weft_error *err)
{
    if (e->rows[micro] == rows)
        return WEFT_OK;
    for (uint32_t h = 0; h < e->program->n_local; h++) {
        struct cell *c = &e->cells[(size_t)h * e->place->n_micros + micro];
        WEFT_TRY(wf_exec_boundary_bytes(&e->local[h].in_tensors, rows, &c->in_bytes, err));
        WEFT_TRY(wf_exec_boundary_bytes(&e->local[h].out_tensors, rows, &c->out_bytes, err));
        wf_exec_boundary_print(&e->local[h].in_tensors, rows, c->in_shape);
        wf_exec_boundary_print(&e->local[h].out_tensors, rows, c->out_shape);
    }
    e->rows[micro] = rows;
    return WEFT_OK;
}

enum weft_status wf_exec_set_rows(struct weft_exec *e, const uint32_t *rows,
                                  struct weft_error *err)
{
    const uint32_t *given = rows == NULL ? e->usual_rows : rows;
    for (uint32_t m = 0; m < e->place->n_micros; m++)
        if (given[m] == 0 || given[m] > e->max_rows)
            return WEFT_FAIL(
                err, WEFT_USAGE,
                "rank %u: micro %u has %u rows (expected 1 to %u); give the largest "
                "number of rows when the executor is created",
                e->rank, e->setup.first_micro + m, given[m], e->max_rows);
    for (uint32_t m = 0; m < e->place->n_micros; m++)
        WEFT_TRY(set_micro_rows(e, m, given[m], err));
    return WEFT_OK;
}
