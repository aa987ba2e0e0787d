/* Schedule on a V placement with split backwards, for given costs and memory limits.  It has
 * two stages per rank.  A search finds the order (search_run.c), and zb-v is one of its
 * starting points.
 *
 * The default memory limit of every rank is 2P activations of a chunk, which is the peak of
 * zb-v.
 */
#include "planning/sched/gen/search.h"

WF_GENERATOR(zb_v_auto)
{
    struct wf_search s;
    struct wf_search_setup setup = {.name = "zb-v-auto", .chunks = 2, .whole = false};
    WEFT_TRY(wf_search_init(&s, &setup, params, err));
    if (params->memory == NULL || params->memory->limit.n == 0)
        wf_search_cap_memory(&s, 2.0 * params->ranks);
    enum weft_status st = wf_search_check_limits(&s, err);
    if (st != WEFT_OK)
        goto done;
    st = wf_search_try_generator(&s, wf_gen_zb_v, params, err);
    if (st == WEFT_OK)
        st = wf_search_run(&s, NULL, err);
    if (st == WEFT_OK)
        st = wf_search_finish(&s, out, err);
done:
    wf_search_release(&s);
    return st;
}
