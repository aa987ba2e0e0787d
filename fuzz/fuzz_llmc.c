/* Opens any bytes as a model file of llm.c.  Checks that all tensors of an accepted file are
 * readable. */
#include <stdint.h>
#include <stdlib.h>

#include "memory_file.h"
#include "require.h"
#include "training/ckpt/llmc.h"

static void read_one(const struct wf_llmc *f, const char *name, uint64_t rows, uint64_t cols)
{
    const uint64_t shape[2] = {rows, cols};
    float *out = malloc((rows * cols + 1) * sizeof *out);
    require(out != NULL);
    require(wf_llmc_read(f, name, 2, shape, out, NULL) == WEFT_OK);
    const uint64_t wrong[2] = {rows + 1, cols};
    require(wf_llmc_read(f, name, 2, wrong, out, NULL) == WEFT_CKPT);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = memory_file(data, size);
    struct wf_llmc *f = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_llmc_open(path, &f, &err);
    if (st == WEFT_OK) {
        const struct weft_model *m = wf_llmc_model(f);
        require(weft_model_check(m, NULL) == WEFT_OK);
        read_one(f, "transformer.wte.weight", m->vocab, m->dim);
        read_one(f, "transformer.wpe.weight", m->ctx, m->dim);
        read_one(f, "transformer.h.0.mlp.c_proj.weight", m->ffn, m->dim);
    } else {
        require(f == NULL && err.msg[0] != '\0' && err.status == st);
    }
    wf_llmc_free(f);
    return 0;
}
