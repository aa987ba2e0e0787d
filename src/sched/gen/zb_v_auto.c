#include "sched/gen/search.h"

WEFT_GENERATOR(zb_v_auto)
{
    struct weft_search s;
    struct weft_search_setup setup = {"zb-v-auto", 2, false};
    WEFT_TRY(weft_search_init(&s, &setup, params, 2.0 * params->ranks, err));
    enum weft_status st = weft_search_check_limits(&s, err);
    if (st == WEFT_OK)
        st = weft_search_v(&s, 4e6, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
    weft_search_release(&s);
    return st;
}
