/* Parses any bytes as a cost file and checks accepted costs. */
#include <stdint.h>
#include <stdlib.h>

#include "config/costfile.h"
#include "config/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_cost cost = {.hop = 0};
    struct weft_memory_cost memory = {.limit = {0}};
    struct wf_units times = {.quantity = WF_QUANTITY_TIME, .scale = 1e-3};
    struct wf_units amounts = {.quantity = WF_QUANTITY_BYTES};
    if (wf_costfile_parse((const char *)data, size, "f", &times, &amounts, &cost, &memory,
                          NULL) == WEFT_OK)
        weft_cost_check(&cost, &memory, 4, 4, 8, NULL);
    wf_costs_release(&cost, &memory);
    return 0;
}
