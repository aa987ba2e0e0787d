/* Opens any bytes as a safetensors file.  Checks that the tensors of an accepted file fill the
 * data and are readable. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "training/ckpt/safetensors.h"

/* Reads a whole tensor, and its last element separately. */
static void check_tensor(const struct wf_safetensors *s, const struct wf_safetensors_tensor *t)
{
    struct weft_error err = {.msg = ""};
    require(wf_safetensors_find(s, t->name) == t);
    if (!t->readable) {
        float value;
        require(wf_safetensors_read(s, t, 0, 0, &value, &err) == WEFT_CKPT);
        require(err.msg[0] != '\0');
        return;
    }
    size_t n = (size_t)t->n;
    float *values = malloc((n + 1) * sizeof *values), last;
    require(values != NULL);
    require(wf_safetensors_read(s, t, 0, n, values, &err) == WEFT_OK);
    require(wf_safetensors_read(s, t, 0, n + 1, values, &err) == WEFT_CKPT);
    if (n > 0) {
        require(wf_safetensors_read(s, t, n - 1, 1, &last, &err) == WEFT_OK);
        require(memcmp(&last, &values[n - 1], sizeof last) == 0);
    }
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wf_safetensors *s = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_safetensors_open_bytes(data, size, "fuzz", &s, &err);
    if (st != WEFT_OK) {
        require(st == WEFT_CKPT && err.status == st && err.msg[0] != '\0' && s == NULL);
        for (const char *c = err.msg; *c != '\0'; c++)
            require(*c >= ' ' && *c <= '~');
        return 0;
    }
    uint64_t end = 0;
    for (size_t i = 0; i < wf_safetensors_count(s); i++) {
        const struct wf_safetensors_tensor *t = wf_safetensors_at(s, i);
        require(t->begin == end && t->end <= size && t->n_dims <= WF_SAFETENSORS_MAX_DIMS);
        end = t->end;
        check_tensor(s, t);
    }
    wf_safetensors_free(s);
    return 0;
}
