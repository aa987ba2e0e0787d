/* Parses any bytes as a cluster description.  Checks that the result is an error or a valid
 * cluster. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weft/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct weft_cluster c;
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (weft_cluster_parse(text, &c, NULL) == WEFT_OK) {
        struct weft_link link = weft_cluster_link(&c, 0, c.ranks_per_node);
        if (c.nodes == 0 || c.ranks_per_node == 0 || !isfinite(link.latency_seconds) ||
            link.latency_seconds < 0 || !(link.bytes_per_second >= 0))
            abort();
    }
    free(text);
    return 0;
}
