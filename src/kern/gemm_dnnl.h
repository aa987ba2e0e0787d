/* One tile of a product, by oneDNN. */
#ifndef KERN_GEMM_DNNL_H
#define KERN_GEMM_DNNL_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/gemm.h"

struct weft_dnnl_shape {
    size_t m, n, k;
    enum weft_pack_form form;
    size_t lda;
    enum weft_type c_type;
    size_t ldc;
    bool bias, sum; /* sum: what is in C is added */
};

struct weft_dnnl_tile;

/* NULL when oneDNN has no kernel for packed factors of this shape on this machine, or no memory:
 * ours can do the same.  Different workers may run a tile at the same time. */
struct weft_dnnl_tile *weft_dnnl_tile_new(const struct weft_dnnl_shape *shape,
                                          unsigned workers);
void weft_dnnl_tile_free(struct weft_dnnl_tile *t);
size_t weft_dnnl_tile_scratch(const struct weft_dnnl_tile *t); /* bytes that one worker needs */
const char *weft_dnnl_tile_name(const struct weft_dnnl_tile *t);

void weft_dnnl_tile_run(struct weft_dnnl_tile *t, unsigned worker, const void *a, const void *b,
                        const float *bias, void *c, void *scratch);

#endif
