/* Parses any bytes as layers per stage or as Megatron's layout.  Checks that the result is an
 * error or a correct partition, which is the same after printing and parsing.  The first byte
 * selects the parser and whether sizes are given. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"
#include "weft/part.h"

static void check_partition(struct weft_partition *p, uint32_t n_stages, uint32_t n_layers)
{
    uint32_t end = p->at[p->n_stages - 1].end_layer;
    require(n_stages == 0 || p->n_stages == n_stages);
    require(n_layers == 0 || end == n_layers);
    require(end <= WEFT_MAX_PATTERN && p->n_stages <= WEFT_MAX_PATTERN);
    require(weft_partition_verify(p, end, NULL) == WEFT_OK);

    struct weft_partition again = {0};
    char *text = NULL;
    require(weft_partition_print_pattern(p, &text, NULL) == WEFT_OK);
    enum weft_status st =
        weft_partition_parse_pattern(&again, text, strlen(text), p->n_stages, end, NULL);
    if (st == WEFT_OK) {
        for (uint32_t s = 0; s < p->n_stages; s++)
            require(again.at[s].end_layer == p->at[s].end_layer &&
                    again.at[s].n_mtp == p->at[s].n_mtp);
    } else { /* counts may have as many stages plus layers as a layout has characters */
        require(st == WEFT_USAGE && p->n_stages + end + 2 > WEFT_MAX_PATTERN);
    }
    free(text);
    weft_partition_release(&again);
    weft_partition_release(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    uint32_t n_stages = data[0] & 2 ? data[0] >> 4 : 0, n_layers = data[0] & 4 ? 12 : 0;
    struct weft_partition p = {0};
    struct weft_error err = {.msg = ""};
    enum weft_status st =
        data[0] & 1
            ? weft_partition_parse_counts(&p, text, size - 1, n_stages, n_layers, &err)
            : weft_partition_parse_pattern(&p, text, size - 1, n_stages, n_layers, &err);
    if (st == WEFT_OK) {
        check_partition(&p, n_stages, n_layers);
    } else {
        require(p.at == NULL);
        require(err.msg[0] != '\0' && err.status == st);
    }
    return 0;
}
