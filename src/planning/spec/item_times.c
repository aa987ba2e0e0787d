/* Converts the operation counts of items to times. */
#include "planning/spec/item_times.h"

void wf_items_set_speed(struct weft_items *items, double flops, double unit_seconds)
{
    double unit = unit_seconds > 0 ? unit_seconds : 1e-3;
    for (size_t i = 0; flops > 0 && i < items->n; i++) {
        items->at[i].f /= flops * unit;
        items->at[i].i /= flops * unit;
        items->at[i].w /= flops * unit;
    }
}
