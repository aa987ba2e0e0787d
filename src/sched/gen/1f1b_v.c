#include "sched/gen/search.h"

WEFT_GENERATOR(1f1b_v)
{
    struct weft_search s;
    struct weft_search_setup setup = {"1f1b-v", 2, true};
    uint32_t chunks = 2 * (2 * params->ranks / 3 + 1);
    WEFT_TRY(weft_search_init(&s, &setup, params, chunks, err));
    enum weft_status st = weft_search_check_limits(&s, err);
    if (st == WEFT_OK)
        st = weft_search_v(&s, NULL, 4e6, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
    weft_search_release(&s);
    return st;
}
