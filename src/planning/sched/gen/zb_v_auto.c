#include "planning/sched/gen/search.h"

/* The V with split backwards for given costs and memory: two stages a rank, the order found by
 * search (search_run.c), to which zb-v is one start.
 *
 * Without a limit every rank gets 2P activations of a chunk, which is what zb-v needs.
 */
WEFT_GENERATOR(zb_v_auto)
{
    struct weft_search s;
    struct weft_search_setup setup = {.name = "zb-v-auto", .chunks = 2, .whole = false};
    WEFT_TRY(weft_search_init(&s, &setup, params, err));
    if (params->memory == NULL || params->memory->limit.n == 0)
        weft_search_cap(&s, 2.0 * params->ranks);
    enum weft_status st = weft_search_check_limits(&s, err);
    if (st != WEFT_OK)
        goto done;
    st = weft_search_try_made(&s, weft_gen_zb_v, params, err);
    if (st == WEFT_OK)
        st = weft_search_run(&s, NULL, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
done:
    weft_search_release(&s);
    return st;
}
